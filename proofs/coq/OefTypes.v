(* OEF: which GPU types users get (Lemma 3.1, Theorem 5.2), vertex optima (section 4.4), rounding (section 4.3). *)
From Coq Require Import Reals Lra Lia List PeanoNat Classical FunctionalExtensionality.
From Hetopt Require Import Sums Linear Hypotheses Oef.
Import ListNotations.
Open Scope R_scope.

(* -- Linear programs over tables ---------------------------------------------------------------------------------- *)

Section Programs.
Variables n k : nat.

(* Limits on allocations: (c, b) says that sum_{l,j} c_l^j x_l^j is at most b. *)
Definition meets (p : list (table * R)) (x : table) : Prop := Forall (fun a => total n k (fst a) x <= snd a) p.
Definition best (p : list (table * R)) (c x : table) : Prop :=
  meets p x /\ forall y, meets p y -> total n k c y <= total n k c x.

Definition move (x d : table) (e : R) : table := fun l j => x l j + e * d l j.
Definition midpoint (x y z : table) : Prop := forall l j, (l < n)%nat -> (j < k)%nat -> x l j = (y l j + z l j) / 2.

Lemma dot_move c x d e l : dot k c (move x d e l) = dot k c (x l) + e * dot k c (d l).
Proof. unfold move. now rewrite dot_plus, dot_scal. Qed.

Lemma total_move c x d e : total n k c (move x d e) = total n k c x + e * total n k c d.
Proof.
  unfold total, rate. rewrite <- sum_scal, <- sum_plus. apply sum_ext; intros; apply dot_move.
Qed.

Lemma total_midpoint c x y z : midpoint x y z -> total n k c x = (total n k c y + total n k c z) / 2.
Proof.
  intros H. rewrite (total_of_same n k c x (move (fun l j => / 2 * y l j) z (/ 2))).
  - rewrite total_move. replace (total n k c (fun l j => / 2 * y l j)) with (/ 2 * total n k c y); [lra|].
    unfold total, rate. rewrite <- sum_scal. apply sum_ext; intros. now rewrite dot_scal.
  - intros l j L J. rewrite H by auto. unfold move. lra.
Qed.

(* A short move in a direction that violates no limit with equality. *)
Lemma short_move p x d : meets p x -> Forall (fun a => total n k (fst a) x < snd a \/ total n k (fst a) d <= 0) p ->
  exists e, 0 < e /\ forall e', 0 <= e' <= e -> meets p (move x d e').
Proof.
  induction p as [|(c, b) p IH]; intros M D.
  - exists 1; split; [lra|constructor].
  - inversion M as [|? ? M1 M2]; inversion D as [|? ? D1 D2]; subst. cbn in M1, D1.
    destruct IH as (e & E & H); auto.
    destruct (Rle_lt_dec (total n k c d) 0) as [V|V].
    + exists e; split; auto. intros e' E'. constructor; [|now apply H]. cbn. rewrite total_move. nra.
    + assert (S : total n k c x < b) by lra.
      exists (Rmin e ((b - total n k c x) / total n k c d)); split.
      * apply Rmin_glb_lt; auto. apply Rdiv_lt_0_compat; lra.
      * intros e' E'. pose proof (Rmin_l e ((b - total n k c x) / total n k c d)).
        pose proof (Rmin_r e ((b - total n k c x) / total n k c d)).
        constructor; [|apply H; lra]. cbn. rewrite total_move.
        assert (e' * total n k c d <= (b - total n k c x) / total n k c d * total n k c d)
          by (apply Rmult_le_compat_r; lra).
        replace ((b - total n k c x) / total n k c d * total n k c d) with (b - total n k c x) in * by (field; lra).
        lra.
Qed.

Lemma best_no_gain p c x d : best p c x ->
  Forall (fun a => total n k (fst a) x < snd a \/ total n k (fst a) d <= 0) p -> total n k c d <= 0.
Proof.
  intros (M & B) D. destruct (short_move p x d M D) as (e & E & H).
  specialize (B _ (H e ltac:(lra))). rewrite total_move in B. nra.
Qed.

Lemma best_exists p c x0 u : meets p x0 -> (forall x, meets p x -> total n k c x <= u) -> exists x, best p c x.
Proof.
  intros M U. set (q := map (fun a => Limit (fst a) 0 (snd a)) p).
  assert (Q : forall x t, Forall (keeps n k x t) q <-> meets p x).
  { intros x t. unfold q, meets. rewrite Forall_map. split; apply Forall_impl; intros a; unfold keeps; cbn; lra. }
  destruct (program_optimum n k q c 0 x0 0 u) as (x & t & F & Most).
  - now apply Q.
  - intros x t F. apply Q, U in F. lra.
  - apply Q in F. exists x; split; [exact F|]. intros y Y. specialize (Most y t (proj2 (Q y t) Y)). lra.
Qed.

(* The optima of a program are the points of another program. *)
Lemma face p c x0 u : meets p x0 -> (forall x, meets p x -> total n k c x <= u) ->
  exists p', (exists x, meets p' x) /\ forall x, meets p' x <-> best p c x.
Proof.
  intros M U. destruct (best_exists p c x0 u M U) as (x1 & M1 & B).
  set (c' := fun l j => -1 * c l j).
  assert (V : forall x, total n k c' x = -1 * total n k c x).
  { intros x. unfold total, rate. rewrite <- sum_scal. apply sum_ext; intros. apply dot_scal_l. }
  assert (P : forall x, meets ((c', - total n k c x1) :: p) x <-> best p c x).
  { intros x. unfold meets at 1. rewrite Forall_cons_iff; cbn. rewrite V. split.
    - intros (L & N). split; auto. intros y Y. specialize (B y Y). lra.
    - intros (N & L). specialize (L x1 M1). split; [lra|exact N]. }
  exists ((c', - total n k c x1) :: p); split; [|exact P]. exists x1. apply P. now split.
Qed.

Lemma best_midpoint p c x y z : best p c x -> meets p y -> meets p z -> midpoint x y z ->
  best p c y /\ best p c z /\ total n k c y = total n k c x.
Proof.
  intros (M & B) Y Z H. pose proof (total_midpoint c x y z H) as E. pose proof (B y Y). pose proof (B z Z).
  repeat split; auto; [| |lra]; intros v N; specialize (B v N); lra.
Qed.

(* Some point is the midpoint of other points only where all of a list of objectives agree. *)
Lemma corner_for p (objectives : list table) x0 : meets p x0 ->
  (forall c, exists u, forall x, meets p x -> total n k c x <= u) ->
  exists x, meets p x /\ forall y z, meets p y -> meets p z -> midpoint x y z ->
    forall c, In c objectives -> total n k c y = total n k c x.
Proof.
  revert p x0; induction objectives as [|c rest IH]; intros p x0 M U.
  - exists x0; split; auto. intros y z _ _ _ c [].
  - destruct (U c) as (u & Uc). destruct (face p c x0 u M Uc) as (p' & (x1 & M1) & P).
    destruct (IH p' x1 M1) as (x & Mx & K).
    + intros d. destruct (U d) as (v & Vd). exists v. intros y Y. apply Vd, P, Y.
    + apply P in Mx. exists x; split; [apply Mx|]. intros y z Y Z H.
      destruct (best_midpoint p c x y z) as (By & Bz & E); auto.
      intros d [<-|D]; [exact E|]. apply (K y z); auto; now apply P.
Qed.

(* The table with 1 at (l, j). *)
Definition unit (l j : nat) : table := fun i s => ind l i * ind j s.

Lemma total_row c x l : (l < n)%nat -> total n k (fun i s => ind l i * c s) x = dot k c (x l).
Proof.
  intros L. unfold total, rate. rewrite <- (sum_ind n (fun i => dot k c (x i)) l L).
  apply sum_ext; intros. apply dot_scal_l.
Qed.

Lemma total_unit x l j : (l < n)%nat -> (j < k)%nat -> total n k (unit l j) x = x l j.
Proof. intros L J. unfold unit. rewrite total_row by auto. now apply sum_ind. Qed.

(* A vertex: the midpoint of no two other points. *)
Definition corner (p : list (table * R)) (x : table) : Prop :=
  forall y z, meets p y -> meets p z -> midpoint x y z -> same_shares n k y x.

Lemma corner_exists p c x0 : meets p x0 -> (forall d, exists u, forall x, meets p x -> total n k d x <= u) ->
  exists x, best p c x /\ corner p x.
Proof.
  intros M U. destruct (U c) as (u & Uc). destruct (face p c x0 u M Uc) as (p' & (x1 & M1) & P).
  destruct (corner_for p' (by_pairs n k unit) x1 M1) as (x & Mx & K).
  - intros d. destruct (U d) as (v & Vd). exists v. intros y Y. apply Vd, P, Y.
  - apply P in Mx. exists x; split; auto. intros y z Y Z H l j L J.
    destruct (best_midpoint p c x y z) as (By & Bz & _); auto.
    rewrite <- (total_unit y), <- (total_unit x) by auto.
    apply (K y z); [now apply P|now apply P|exact H|now apply in_by_pairs].
Qed.

End Programs.

(* -- The programs of OEF ------------------------------------------------------------------------------------------ *)

Section Limits.
Variables n k : nat.
Variable m : nat -> R.
Implicit Types (pi : nat -> R) (w x y d : table).

Lemma used_value x j : (j < k)%nat -> total n k (fun _ => ind j) x = used n x j.
Proof. intros J. apply sum_ext; intros l L. now apply sum_ind. Qed.

(* eqs. (9a), (9b) *)
Definition capacity_limits : list (table * R) :=
  by_pairs n k (fun l j => ((fun i s => ind l i * (- ind j s)), 0)) ++ by_users k (fun j => ((fun _ => ind j), m j)).
(* eq. (10c) *)
Definition envy pi w : list (table * R) :=
  by_pairs n n (fun l h => ((fun i s => ind h i * (pi l * w l s) - ind l i * (pi h * w l s)), 0)).
(* eq. (9c): w_l.x_l / pi_l = w_h.x_h / pi_h *)
Definition equal_rates pi w : list (table * R) :=
  by_pairs n n (fun l h => ((fun i s => ind l i * (pi h * w l s) - ind h i * (pi l * w h s)), 0)).
(* w_l.x_l >= w_l.m pi_l / sum_i pi_i *)
Definition fair_shares pi w : list (table * R) :=
  by_users n (fun l => ((fun i s => ind l i * (- w l s)), - (dot k (w l) m * (pi l / sum n pi)))).

Lemma total_less l j x : (l < n)%nat -> (j < k)%nat -> total n k (fun i s => ind l i * (- ind j s)) x = - x l j.
Proof.
  intros L J. rewrite (total_row n k (fun s => - ind j s)) by auto. rewrite dot_opp.
  f_equal. now apply sum_ind.
Qed.

Lemma total_two l h c c' x : (l < n)%nat -> (h < n)%nat ->
  total n k (fun i s => ind l i * c s - ind h i * c' s) x = dot k c (x l) - dot k c' (x h).
Proof.
  intros L H. rewrite <- (total_row n k c x l), <- (total_row n k c' x h) by auto.
  unfold total, rate. rewrite <- sum_minus. apply sum_ext; intros i I.
  unfold dot. rewrite <- sum_minus. apply sum_ext; intros; ring.
Qed.

Lemma Forall_capacity P : Forall P capacity_limits <->
  (forall l j, (l < n)%nat -> (j < k)%nat -> P ((fun i s => ind l i * (- ind j s)), 0)) /\
  forall j, (j < k)%nat -> P ((fun _ => ind j), m j).
Proof. unfold capacity_limits. now rewrite Forall_app, by_pairs_spec, by_users_spec. Qed.

Lemma meets_capacity x : meets n k capacity_limits x <-> feasible n k m x.
Proof.
  unfold meets. rewrite Forall_capacity. split; intros (A & B); split; cbn.
  - intros l j L J. specialize (A l j L J). cbn in A. rewrite total_less in A by auto. lra.
  - intros j J. specialize (B j J). cbn in B. now rewrite used_value in B.
  - intros l j L J. specialize (A l j L J). rewrite total_less by auto. lra.
  - intros j J. specialize (B j J). now rewrite used_value.
Qed.

(* A direction takes no GPUs from users that have none, and adds none where all are used. *)
Definition possible x d : Prop :=
  (forall l j, (l < n)%nat -> (j < k)%nat -> 0 < x l j \/ 0 <= d l j) /\
  forall j, (j < k)%nat -> used n x j < m j \/ used n d j <= 0.

Lemma possible_capacity x d : possible x d ->
  Forall (fun a => total n k (fst a) x < snd a \/ total n k (fst a) d <= 0) capacity_limits.
Proof.
  intros (A & B). apply Forall_capacity; split; cbn.
  - intros l j L J. rewrite !total_less by auto. destruct (A l j L J); [left|right]; lra.
  - intros j J. rewrite !used_value by auto. auto.
Qed.

Lemma meets_app p q x : meets n k (p ++ q) x <-> meets n k p x /\ meets n k q x.
Proof. apply Forall_app. Qed.

Lemma envy_value pi w x l h : (l < n)%nat -> (h < n)%nat ->
  total n k (fun i s => ind h i * (pi l * w l s) - ind l i * (pi h * w l s)) x =
  pi l * dot k (w l) (x h) - pi h * rate k w x l.
Proof.
  intros L H. rewrite (total_two h l (fun s => pi l * w l s) (fun s => pi h * w l s)) by auto.
  now rewrite !dot_scal_l.
Qed.

Lemma meets_envy pi w x : meets n k (envy pi w) x <-> envy_free n k pi w x.
Proof.
  unfold meets, envy. rewrite by_pairs_spec. split; intros A l h L H; specialize (A l h L H); cbn in *;
    rewrite envy_value in * by auto; lra.
Qed.

Lemma equal_value pi w x l h : (l < n)%nat -> (h < n)%nat ->
  total n k (fun i s => ind l i * (pi h * w l s) - ind h i * (pi l * w h s)) x =
  pi h * rate k w x l - pi l * rate k w x h.
Proof.
  intros L H. rewrite (total_two l h (fun s => pi h * w l s) (fun s => pi l * w h s)) by auto.
  now rewrite !dot_scal_l.
Qed.

Lemma meets_equal pi w x : (0 < n)%nat -> weights n pi ->
  meets n k (equal_rates pi w) x <-> exists t, forall l, (l < n)%nat -> rate k w x l = t * pi l.
Proof.
  intros N W. unfold meets, equal_rates. rewrite by_pairs_spec. split.
  - intros A. exists (rate k w x 0 / pi 0%nat). intros l L.
    assert (P : 0 < pi 0%nat) by auto. pose proof (A l 0%nat L N) as A1. pose proof (A 0%nat l N L) as A2.
    cbn in A1, A2. rewrite equal_value in A1, A2 by auto.
    apply Rmult_eq_reg_l with (pi 0%nat); [|lra].
    replace (pi 0%nat * (rate k w x 0 / pi 0%nat * pi l)) with (pi l * rate k w x 0) by (field; lra). lra.
  - intros (t & A) l h L H. cbn. rewrite equal_value, !A by auto. right; ring.
Qed.

Lemma share_value w x l : (l < n)%nat -> total n k (fun i s => ind l i * (- w l s)) x = - rate k w x l.
Proof. intros L. rewrite (total_row n k (fun s => - w l s)) by auto. apply dot_opp. Qed.

Lemma meets_sharing pi w x : meets n k (fair_shares pi w) x <-> sharing_incentive n k m pi w x.
Proof.
  unfold meets, fair_shares. rewrite by_users_spec. split; intros A l L; specialize (A l L); cbn in *;
    rewrite share_value in * by auto; lra.
Qed.

(* The largest total under the sharing incentive (section 3.1). *)
Definition sharing_optimum pi w x : Prop := largest_sharing_total n k m pi w x.

Lemma cooperative_best pi w x : cooperative n k m pi w x <-> best n k (capacity_limits ++ envy pi w) w x.
Proof.
  unfold cooperative, best. rewrite meets_app, meets_capacity, meets_envy. split.
  - intros (A & B & C); split; [now split|]. intros y Y. apply meets_app in Y as (Y & Z).
    apply C; [now apply meets_capacity|now apply meets_envy].
  - intros ((A & B) & C); split; [|split]; auto. intros y Y Z. apply C, meets_app.
    now rewrite meets_capacity, meets_envy.
Qed.

Lemma sharing_best pi w x : sharing_optimum pi w x <-> best n k (capacity_limits ++ fair_shares pi w) w x.
Proof.
  unfold sharing_optimum, largest_sharing_total, best. rewrite meets_app, meets_capacity, meets_sharing. split.
  - intros (A & B & C); split; [now split|]. intros y Y. apply meets_app in Y as (Y & Z).
    apply C; [now apply meets_capacity|now apply meets_sharing].
  - intros ((A & B) & C); split; [|split]; auto. intros y Y Z. apply C, meets_app.
    now rewrite meets_capacity, meets_sharing.
Qed.

Lemma meets_level pi w x : (0 < n)%nat -> weights n pi ->
  meets n k (capacity_limits ++ equal_rates pi w) x <-> exists t, level n k m pi w x t.
Proof.
  intros N W. rewrite meets_app, meets_capacity, meets_equal by auto. unfold level. firstorder.
Qed.

Lemma noncooperative_best pi w x : (0 < n)%nat -> weights n pi ->
  (exists t, noncooperative n k m pi w x t) <-> best n k (capacity_limits ++ equal_rates pi w) w x.
Proof.
  intros N W. assert (S : 0 < sum n pi) by now apply weights_sum with 0%nat.
  unfold best. rewrite meets_level by auto. split.
  - intros (t & L & B). split; [now exists t|]. intros y Y. apply meets_level in Y as (s & Y); auto.
    change (total n k w y <= total n k w x). rewrite (level_total n k m pi w y s Y), (level_total n k m pi w x t L).
    apply Rmult_le_compat_r; [lra|]. now apply (B y).
  - intros ((t & L) & B). exists t; split; auto. intros y s Y.
    assert (V : total n k w y <= total n k w x) by (apply B, meets_level; auto; now exists s).
    rewrite (level_total n k m pi w y s Y), (level_total n k m pi w x t L) in V.
    now apply Rmult_le_reg_r with (sum n pi).
Qed.

(* Values are bounded on all feasible tables. *)
Lemma capacity_bounded q c : exists u, forall x, meets n k (capacity_limits ++ q) x -> total n k c x <= u.
Proof.
  exists (sum n (fun l => sum k (fun j => Rabs (c l j) * m j))). intros x X.
  apply meets_app in X as (X & _). apply meets_capacity in X as (P & U).
  apply sum_le; intros l L. apply sum_le; intros j J.
  apply Rle_trans with (Rabs (c l j) * x l j).
  - apply Rmult_le_compat_r; [now apply P|apply Rle_abs].
  - apply Rmult_le_compat_l; [apply Rabs_pos|]. apply Rle_trans with (used n x j); [|now apply U].
    apply (sum_term n (fun l => x l j)); auto.
Qed.

Hypothesis supply : forall j, (j < k)%nat -> 0 <= m j.
Lemma noncooperative_corner_exists pi w : (0 < n)%nat -> weights n pi -> exists x t, noncooperative n k m pi w x t /\
  corner n k (capacity_limits ++ equal_rates pi w) x.
Proof.
  intros N W. destruct (corner_exists n k (capacity_limits ++ equal_rates pi w) w (fun _ _ => 0)) as (x & B & C).
  - apply meets_level; auto. exists 0. split; [now apply nothing|].
    intros l L. rewrite rate_of_nothing. ring.
  - intros d. apply capacity_bounded.
  - apply noncooperative_best in B as (t & B); auto. now exists x, t.
Qed.

(* -- Directions that would improve an optimum --------------------------------------------------------------------- *)

Lemma cooperative_no_gain pi w x d : cooperative n k m pi w x -> possible x d ->
  (forall l h, (l < n)%nat -> (h < n)%nat -> pi l * dot k (w l) (x h) < pi h * rate k w x l \/
    pi l * dot k (w l) (d h) <= pi h * rate k w d l) ->
  total n k w d <= 0.
Proof.
  intros O P E. apply cooperative_best in O. apply (best_no_gain n k _ w x d O).
  apply Forall_app; split; [now apply possible_capacity|].
  apply by_pairs_spec. intros l h L H. cbn. rewrite !envy_value by auto. specialize (E l h L H). lra.
Qed.

Lemma sharing_no_gain pi w x d : sharing_optimum pi w x -> possible x d ->
  (forall l, (l < n)%nat -> 0 <= rate k w d l) -> total n k w d <= 0.
Proof.
  intros O P E. apply sharing_best in O. apply (best_no_gain n k _ w x d O).
  apply Forall_app; split; [now apply possible_capacity|].
  apply by_users_spec. intros l L. cbn. rewrite !share_value by auto. specialize (E l L). lra.
Qed.

Lemma noncooperative_no_gain pi w x t d : weights n pi -> positive n k w -> noncooperative n k m pi w x t ->
  possible x d -> (forall l, (l < n)%nat -> 0 <= rate k w d l) -> forall l, (l < n)%nat -> rate k w d l <= 0.
Proof.
  intros W P O D G h H. destruct (short_move n k capacity_limits x d) as (e & E & M).
  - apply meets_capacity. apply O.
  - now apply possible_capacity.
  - specialize (M e ltac:(lra)). apply meets_capacity in M.
    assert (Q := noncooperative_pareto n k m pi w x t W P O _ M). unfold rate in *.
    specialize (Q ltac:(intros l L; rewrite dot_move; specialize (G l L); nra) h H). rewrite dot_move in Q. nra.
Qed.

End Limits.

(* -- Lemma 3.1 and Theorem 5.2 ------------------------------------------------------------------------------------ *)

Section Types.
Variables n k : nat.
Variable m : nat -> R.
Implicit Types (pi : nat -> R) (w x y : table).

(* User 1 is served from left to right: it has type j only if it has all GPUs of earlier types (Lemma 3.1). *)
Definition filled_from_left x : Prop := forall i j, (i < j < k)%nat -> 0 < x 0%nat j -> x 0%nat i = m i.
(* The types of every user form an interval (Theorem 5.2). *)
Definition adjacent_types x : Prop := forall l a b c, (l < n)%nat -> (a < b < c)%nat -> (c < k)%nat ->
  0 < x l a -> 0 < x l c -> 0 < x l b.
Definition all_used x : Prop := forall j, (j < k)%nat -> used n x j = m j.
(* No user has a type from which a later user has an earlier one. *)
Definition staircase x : Prop := forall l h i j, (l < h < n)%nat -> (i < j < k)%nat -> 0 < x l j -> ~ 0 < x h i.

(* Speedups are relative to the first type (section 2.3). *)
Definition normalised w : Prop := forall l, (l < n)%nat -> w l 0%nat = 1.
(* Ratio-ordered users, where ratios may be equal. *)
Definition weakly_ratio_ordered w : Prop := forall l h i j, (l < h < n)%nat -> (i < j < k)%nat ->
  w l j * w h i <= w l i * w h j.

Lemma first_has_all x i : (0 < n)%nat -> (i < k)%nat -> feasible n k m x -> used n x i = m i ->
  (forall h, (0 < h < n)%nat -> ~ 0 < x h i) -> x 0%nat i = m i.
Proof.
  intros N I (X & _) <- H. unfold used. symmetry. rewrite <- (sum_at n 0 (x 0%nat i)) by auto.
  apply sum_ext. intros l L. destruct (Nat.eqb_spec l 0) as [->|D]; auto.
  specialize (H l ltac:(lia)). specialize (X l i L I). lra.
Qed.

Lemma staircase_filled x : (0 < n)%nat -> feasible n k m x -> all_used x -> staircase x -> filled_from_left x.
Proof.
  intros N F U S i j I P. apply first_has_all; auto; [lia|apply U; lia|]. intros h H. now apply (S 0%nat h i j).
Qed.

Lemma staircase_adjacent x : (forall j, (j < k)%nat -> 0 < m j) -> all_used x -> staircase x -> adjacent_types x.
Proof.
  intros M U S l a b c L A C Pa Pc. destruct (sum_pos_term n (fun h => x h b)) as (o & O & P).
  { change (0 < used n x b). rewrite U by lia. apply M; lia. }
  destruct (Nat.lt_trichotomy o l) as [D|[->|D]]; auto; exfalso.
  - apply (S o l a b); auto; lia.
  - apply (S l o b c); auto; lia.
Qed.

(* User l gets p GPUs of type i from user h for q GPUs of type j. *)
Definition swap (l h i j : nat) (p q : R) : table := fun a s => (ind l a - ind h a) * (p * ind i s - q * ind j s).

Lemma dot_swap c l h i j p q a : (i < k)%nat -> (j < k)%nat ->
  dot k c (swap l h i j p q a) = (ind l a - ind h a) * (p * c i - q * c j).
Proof.
  intros I J. unfold swap. rewrite dot_scal. f_equal.
  rewrite <- (dot_ind k c i I), <- (dot_ind k c j J), <- !dot_scal. unfold dot.
  rewrite <- sum_minus. apply sum_ext; intros; ring.
Qed.

Lemma sum_between l h f : (l < n)%nat -> (h < n)%nat -> sum n (fun a => (ind l a - ind h a) * f a) = f l - f h.
Proof.
  intros L H. rewrite <- (sum_ind n f l L), <- (sum_ind n f h H), <- sum_minus. apply sum_ext; intros; ring.
Qed.

Lemma swap_possible x l h i j p q : feasible n k m x -> (l < n)%nat -> (h < n)%nat -> 0 <= p -> 0 <= q ->
  0 < x l j -> 0 < x h i -> possible n k m x (swap l h i j p q).
Proof.
  intros (X & _) L H P Q Xl Xh. split.
  - intros a s A S. specialize (X a s A S). unfold swap, ind.
    destruct (Nat.eqb_spec a l), (Nat.eqb_spec a h), (Nat.eqb_spec s i), (Nat.eqb_spec s j); subst; auto;
      right; nra.
  - intros s S. right. unfold used, swap.
    rewrite (sum_between l h (fun _ => p * ind i s - q * ind j s)) by auto. lra.
Qed.

(* An exchange after which the rate of l is unchanged, and that of h grows if its ratio is larger. *)
Lemma exchange_rate w l h i j a : l <> h -> (i < k)%nat -> (j < k)%nat ->
  rate k w (swap l h i j (w l j) (w l i)) a = ind h a * (w l i * w h j - w l j * w h i).
Proof.
  intros D I J. unfold rate. rewrite dot_swap by auto. unfold ind.
  destruct (Nat.eqb_spec a l), (Nat.eqb_spec a h); subst; try contradiction; ring.
Qed.

Lemma exchange_total w l h i j : l <> h -> (h < n)%nat -> (i < k)%nat -> (j < k)%nat ->
  total n k w (swap l h i j (w l j) (w l i)) = w l i * w h j - w l j * w h i.
Proof.
  intros D H I J. unfold total. rewrite <- (sum_ind n (fun _ => w l i * w h j - w l j * w h i) h H).
  apply sum_ext; intros. now apply exchange_rate.
Qed.

(* Idle GPUs can be given to all users in proportion to their weights. *)
Definition gift pi (j : nat) : table := fun l s => pi l * ind j s.

Lemma dot_gift pi c j l : (j < k)%nat -> dot k c (gift pi j l) = pi l * c j.
Proof. intros J. unfold gift. now rewrite dot_scal, dot_ind. Qed.

Lemma gift_possible pi x j : weights n pi -> used n x j < m j -> possible n k m x (gift pi j).
Proof.
  intros W U. split.
  - intros l s L _. right. specialize (W l L). unfold gift, ind. destruct (Nat.eqb_spec s j); nra.
  - intros s S. destruct (Nat.eq_dec s j) as [->|D]; [now left|right].
    unfold used, gift. rewrite sum_zero; [lra|]. intros. rewrite ind_other by auto. ring.
Qed.

Lemma gift_gain pi w j : (0 < n)%nat -> weights n pi -> positive n k w -> (j < k)%nat ->
  (forall l, (l < n)%nat -> 0 < rate k w (gift pi j) l) /\ 0 < total n k w (gift pi j).
Proof.
  intros N W P J. assert (G : forall l, (l < n)%nat -> 0 < rate k w (gift pi j) l).
  { intros l L. unfold rate. rewrite dot_gift by auto. apply Rmult_lt_0_compat; auto. }
  split; auto. unfold total. rewrite <- (sum_zero n (fun _ => 0)) by auto.
  apply sum_lt with 0%nat; auto. intros; apply Rlt_le; auto.
Qed.

Section Optima.
Variables (pi : nat -> R) (w x : table).
Hypothesis users : (0 < n)%nat.
Hypothesis pi_positive : weights n pi.
Hypothesis w_positive : positive n k w.

Lemma used_unless_less : feasible n k m x -> (forall j, (j < k)%nat -> ~ used n x j < m j) -> all_used x.
Proof. intros (_ & F) U j J. specialize (F j J). specialize (U j J). lra. Qed.

Lemma noncooperative_used t : noncooperative n k m pi w x t -> all_used x.
Proof.
  intros O. apply used_unless_less; [apply O|]. intros j J U.
  destruct (gift_gain pi w j) as (G & _); auto.
  pose proof (noncooperative_no_gain n k m pi w x t (gift pi j) pi_positive w_positive O
    (gift_possible pi x j pi_positive U)) as Q.
  specialize (Q ltac:(intros; apply Rlt_le; auto) 0%nat users). specialize (G 0%nat users). lra.
Qed.

Lemma sharing_used : sharing_optimum n k m pi w x -> all_used x.
Proof.
  intros O. apply used_unless_less; [apply O|]. intros j J U.
  destruct (gift_gain pi w j) as (G & T); auto.
  apply (Rlt_not_le _ _ T), (sharing_no_gain n k m pi w x); auto; [now apply gift_possible|].
  intros; apply Rlt_le; auto.
Qed.

Lemma cooperative_used : cooperative n k m pi w x -> all_used x.
Proof.
  intros O. apply used_unless_less; [apply O|]. intros j J U.
  destruct (gift_gain pi w j) as (G & T); auto.
  apply (Rlt_not_le _ _ T), (cooperative_no_gain n k m pi w x); auto; [now apply gift_possible|].
  intros l h L H. right. unfold rate. rewrite !dot_gift by auto. lra.
Qed.

Lemma exchange_possible l h i j : feasible n k m x -> (l < h < n)%nat -> (i < j < k)%nat -> 0 < x l j -> 0 < x h i ->
  possible n k m x (swap l h i j (w l j) (w l i)).
Proof.
  intros F L I Pl Ph. apply swap_possible; auto; try lia; apply Rlt_le, w_positive; lia.
Qed.

Lemma noncooperative_no_exchange t l h i j : noncooperative n k m pi w x t -> (l < h < n)%nat -> (i < j < k)%nat ->
  0 < x l j -> 0 < x h i -> w l i * w h j <= w l j * w h i.
Proof.
  intros O L I Pl Ph. destruct (Rle_lt_dec (w l i * w h j) (w l j * w h i)) as [|R]; auto.
  pose proof (noncooperative_no_gain n k m pi w x t _ pi_positive w_positive O
    (exchange_possible l h i j (proj1 (proj1 O)) L I Pl Ph)) as Q.
  specialize (Q ltac:(intros; rewrite exchange_rate by lia; unfold ind; destruct Nat.eqb; nra) h ltac:(lia)).
  rewrite exchange_rate, ind_same in Q by lia. lra.
Qed.

Lemma noncooperative_staircase t : ratio_ordered n k w -> noncooperative n k m pi w x t -> staircase x.
Proof.
  intros Ro O l h i j L I Pl Ph. specialize (Ro l h i j L I).
  pose proof (noncooperative_no_exchange t l h i j O L I Pl Ph). lra.
Qed.

Lemma sharing_staircase : ratio_ordered n k w -> sharing_optimum n k m pi w x -> staircase x.
Proof.
  intros Ro O l h i j L I Pl Ph. specialize (Ro l h i j L I).
  pose proof (sharing_no_gain n k m pi w x _ O (exchange_possible l h i j (proj1 O) L I Pl Ph)) as Q.
  rewrite exchange_total in Q by lia. enough (w l i * w h j - w l j * w h i <= 0) by lra. apply Q.
  intros a A. rewrite exchange_rate by lia. unfold ind. destruct Nat.eqb; lra.
Qed.

(* Two users: what one gets the other gives, so no user's envy grows. *)
Lemma two_users_staircase : n = 2%nat -> ratio_ordered n k w -> cooperative n k m pi w x -> staircase x.
Proof.
  intros N Ro O l h i j L I Pl Ph. specialize (Ro l h i j L I).
  pose proof (cooperative_no_gain n k m pi w x _ O (exchange_possible l h i j (proj1 O) L I Pl Ph)) as Q.
  rewrite exchange_total in Q by lia. enough (w l i * w h j - w l j * w h i <= 0) by lra. apply Q.
  intros a b A B. right. destruct (Nat.eq_dec a b) as [->|D]; [apply Rle_refl|].
  replace (dot k (w a) (swap l h i j (w l j) (w l i) b)) with (- rate k w (swap l h i j (w l j) (w l i)) a).
  - rewrite exchange_rate by lia. pose proof (pi_positive a A). pose proof (pi_positive b B).
    unfold ind. destruct Nat.eqb; nra.
  - unfold rate. rewrite !dot_swap by lia. unfold ind.
    destruct (Nat.eqb_spec a l), (Nat.eqb_spec a h), (Nat.eqb_spec b l), (Nat.eqb_spec b h); try lia; ring.
Qed.

End Optima.

(* -- Theorem 5.2 where ratios may be equal ------------------------------------------------------------------------ *)

Lemma later_users_faster w l h j : positive n k w -> normalised w -> weakly_ratio_ordered w -> (l < h < n)%nat ->
  (j < k)%nat -> w l j <= w h j.
Proof.
  intros P N Ro L J. destruct (Nat.eq_dec j 0) as [->|D]; [rewrite !N by lia; lra|].
  specialize (Ro l h 0%nat j L ltac:(lia)). rewrite !N in Ro by lia. lra.
Qed.

(* The second objective: sum_{l,j} l j w_l^j x_l^j, with users and types counted from 1. *)
Definition order_score w : table := fun l j => INR (S l) * INR (S j) * w l j.
Definition sorted_optimum pi w x t : Prop := noncooperative n k m pi w x t /\
  forall y, noncooperative n k m pi w y t -> total n k (order_score w) y <= total n k (order_score w) x.

Lemma score_swap w l h i j p q : (l < n)%nat -> (h < n)%nat -> (i < k)%nat -> (j < k)%nat ->
  p * w l i = q * w l j -> p * w h i = q * w h j ->
  total n k (order_score w) (swap l h i j p q) =
  (INR (S j) - INR (S i)) * (q * (INR (S h) * w h j - INR (S l) * w l j)).
Proof.
  intros L H I J El Eh. unfold total, rate.
  rewrite (sum_ext n _ (fun a => (ind l a - ind h a) * (p * order_score w a i - q * order_score w a j)))
    by (intros; apply dot_swap; auto).
  rewrite sum_between by auto. unfold order_score.
  replace (p * (INR (S l) * INR (S i) * w l i)) with (INR (S l) * INR (S i) * (p * w l i)) by ring.
  replace (p * (INR (S h) * INR (S i) * w h i)) with (INR (S h) * INR (S i) * (p * w h i)) by ring.
  rewrite El, Eh. ring.
Qed.

Lemma sorted_staircase pi w x t : (0 < n)%nat -> weights n pi -> positive n k w -> normalised w ->
  weakly_ratio_ordered w -> sorted_optimum pi w x t -> staircase x.
Proof.
  intros N W P One Ro (O & B) l h i j L I Pl Ph.
  pose proof (noncooperative_no_exchange pi w x N W P t l h i j O L I Pl Ph) as E1.
  pose proof (Ro l h i j L I) as E2. set (d := swap l h i j (w l j) (w l i)).
  assert (Z : forall a, rate k w d a = 0).
  { intros a. unfold d. rewrite exchange_rate by lia. replace (w l i * w h j - w l j * w h i) with 0 by lra. ring. }
  destruct (short_move n k (capacity_limits n k m) x d) as (e & E & M).
  - apply meets_capacity. apply O.
  - apply possible_capacity, exchange_possible; auto. apply O.
  - specialize (M e ltac:(lra)). apply meets_capacity in M. specialize (B (move x d e)).
    rewrite total_move in B. unfold d at 2 in B. rewrite score_swap in B by (try lia; lra).
    pose proof (later_users_faster w l h j P One Ro L ltac:(lia)) as F.
    pose proof (P l j ltac:(lia) ltac:(lia)). pose proof (P l i ltac:(lia) ltac:(lia)).
    assert (0 < INR (S j) - INR (S i)) by (apply Rlt_Rminus, lt_INR; lia).
    assert (0 < INR (S l)) by (apply (lt_INR 0); lia).
    assert (INR (S l) < INR (S h)) by (apply lt_INR; lia).
    assert (0 < INR (S h) * w h j - INR (S l) * w l j) by nra.
    assert (0 < (INR (S j) - INR (S i)) * (w l i * (INR (S h) * w h j - INR (S l) * w l j)))
      by (repeat apply Rmult_lt_0_compat; auto).
    assert (K : noncooperative n k m pi w (move x d e) t); [|specialize (B K); nra].
    split; [split; [exact M|]|apply O]. intros a A. unfold rate. rewrite dot_move.
    change (rate k w x a + e * rate k w d a = t * pi a). rewrite Z, (proj2 (proj1 O)) by auto. ring.
Qed.

Lemma sorted_exists pi w : (0 < n)%nat -> weights n pi -> (forall j, (j < k)%nat -> 0 <= m j) ->
  exists x t, sorted_optimum pi w x t.
Proof.
  intros N W M. destruct (noncooperative_corner_exists n k m M pi w N W) as (x0 & t & O & _).
  pose proof (proj1 (noncooperative_best n k m pi w x0 N W) (ex_intro _ t O)) as (F & B).
  destruct (capacity_bounded n k m (equal_rates n pi w) w) as (u & U).
  destruct (face n k _ w x0 u F U) as (p & (x1 & X1) & P).
  destruct (capacity_bounded n k m (equal_rates n pi w) (order_score w)) as (v & V).
  destruct (best_exists n k p (order_score w) x1 v X1) as (x & X & Y).
  { intros y Y. apply V, P, Y. }
  apply P, noncooperative_best in X as (s & X); auto. exists x, s. split; auto.
  intros y Z. apply Y, P, noncooperative_best; auto. now exists s.
Qed.

End Types.

(* -- The theorems, for ratio-ordered users with positive speedups ------------------------------------------------- *)

(* Cases for the examples: speedup (l + 1)^j of user l on type j, weights 1, 2, ..., one GPU of each type *)
Definition powers : table := fun l j => INR (S l) ^ j.
Definition numbers (l : nat) : R := INR (S l).

Lemma numbers_positive l : 0 < numbers l.
Proof. apply (lt_INR 0); lia. Qed.

Lemma powers_positive n k : positive n k powers.
Proof. intros l j _ _. apply pow_lt, numbers_positive. Qed.

Lemma powers_normalised n : normalised n powers.
Proof. intros l _. reflexivity. Qed.

Lemma powers_ordered n k : ratio_ordered n k powers.
Proof.
  assert (Lt : forall a b d, 0 < a < b -> a ^ S d < b ^ S d).
  { intros a b d H. induction d as [|d IH]; [lra|]. change (a * a ^ S d < b * b ^ S d).
    assert (0 < a ^ S d) by (apply pow_lt; lra). nra. }
  intros l h i j L I. unfold powers. replace j with (i + S (j - i - 1))%nat by lia. rewrite !pow_add.
  assert (0 < INR (S l) < INR (S h)) by (split; [apply (lt_INR 0)|apply lt_INR]; lia).
  assert (0 < INR (S l) ^ i) by (apply pow_lt; lra). assert (0 < INR (S h) ^ i) by (apply pow_lt; lra).
  specialize (Lt (INR (S l)) (INR (S h)) (j - i - 1)%nat H).
  assert (0 < INR (S l) ^ i * INR (S h) ^ i) by (apply Rmult_lt_0_compat; auto). nra.
Qed.

Ltac case_of_examples := auto using powers_positive, positive_nonneg, powers_normalised, powers_ordered, equal_weights;
  try (intros ? _; apply numbers_positive); try (intros ? _; unfold one_each; lra); try lia.

Lemma powers_noncooperative : exists x t, noncooperative 3 3 one_each numbers powers x t.
Proof. apply noncooperative_exists; case_of_examples. Qed.

Lemma powers_cooperative n k pi : exists x, cooperative n k one_each pi powers x.
Proof. apply cooperative_exists; case_of_examples. Qed.

(* The hypotheses can be met by an optimum that exists. *)
Ltac met_by optimum :=
  let H := fresh "H" in let O := fresh "O" in intros H; pose proof optimum as O;
  repeat (match type of O with ex _ => destruct O as (? & O) end); (eapply H; try exact O); case_of_examples.

(* Claim oef/lemma-3.1-ratio: every optimum of non-cooperative OEF serves user 1 from left to right. *)
Theorem noncooperative_filled n k m pi w x t : (0 < n)%nat -> weights n pi -> positive n k w -> ratio_ordered n k w ->
  noncooperative n k m pi w x t -> filled_from_left k m x.
Proof.
  intros N W P Ro O. apply (staircase_filled n); [exact N|apply O| |].
  - now apply (noncooperative_used n k m pi w x N W P t).
  - now apply (noncooperative_staircase n k m pi w x N W P t).
Qed.
Example noncooperative_filled_met : can_be_met noncooperative_filled.
Proof. met_by powers_noncooperative. Qed.

(* Claim oef/thm-5.2-ratio: every optimum of non-cooperative OEF gives every user adjacent types. *)
Theorem noncooperative_adjacent n k m pi w x t : (0 < n)%nat -> (forall j, (j < k)%nat -> 0 < m j) -> weights n pi ->
  positive n k w -> ratio_ordered n k w -> noncooperative n k m pi w x t -> adjacent_types n k x.
Proof.
  intros N M W P Ro O. apply (staircase_adjacent n k m); [exact M| |].
  - now apply (noncooperative_used n k m pi w x N W P t).
  - now apply (noncooperative_staircase n k m pi w x N W P t).
Qed.
Example noncooperative_adjacent_met : can_be_met noncooperative_adjacent.
Proof. met_by powers_noncooperative. Qed.

(* Claim oef/thm-5.2-sorted: where ratios may be equal, every optimum of non-cooperative OEF with the largest
   sum_{l,j} l j w_l^j x_l^j gives adjacent types. *)
Theorem sorted_adjacent n k m pi w x t : (0 < n)%nat -> (forall j, (j < k)%nat -> 0 < m j) -> weights n pi ->
  positive n k w -> normalised n w -> weakly_ratio_ordered n k w -> sorted_optimum n k m pi w x t ->
  adjacent_types n k x.
Proof.
  intros N M W P One Ro O. apply (staircase_adjacent n k m); [exact M| |].
  - apply (noncooperative_used n k m pi w x N W P t), O.
  - now apply (sorted_staircase n k m pi w x t).
Qed.
Example sorted_adjacent_met : can_be_met sorted_adjacent.
Proof.
  intros H. set (w := fun _ j : nat => numbers j).
  destruct (sorted_exists 3 3 one_each) with (pi := numbers) (w := w) as (x & t & O); case_of_examples.
  apply (H 3%nat 3%nat one_each numbers w x t); case_of_examples.
  - intros l j _ _. apply numbers_positive.
  - intros l _. reflexivity.
  - intros l h i j _ _. unfold w. lra.
Qed.

(* Claim oef/lemma-3.1-sharing-ratio: Lemma 3.1 and Theorem 5.2 for the largest total under the sharing incentive,
   every optimum. *)
Theorem sharing_filled_and_adjacent n k m pi w x : (0 < n)%nat -> (forall j, (j < k)%nat -> 0 < m j) ->
  weights n pi -> positive n k w -> ratio_ordered n k w -> sharing_optimum n k m pi w x ->
  filled_from_left k m x /\ adjacent_types n k x.
Proof.
  intros N M W P Ro O. pose proof (sharing_used n k m pi w x N W P O) as U.
  pose proof (sharing_staircase n k m pi w x N P Ro O) as S.
  split; [apply (staircase_filled n)|apply (staircase_adjacent n k m)]; auto. apply O.
Qed.
Example sharing_filled_and_adjacent_met : can_be_met sharing_filled_and_adjacent.
Proof.
  intros H. destruct (largest_sharing_total_exists 3 3 one_each numbers powers) as (x & O); case_of_examples.
  apply (H 3%nat 3%nat one_each numbers powers x); case_of_examples.
Qed.

(* Claim oef/lemma-3.1-cooperative-two: Lemma 3.1 for cooperative OEF with two users, every optimum. *)
Theorem cooperative_two_filled k m pi w x : weights 2 pi -> positive 2 k w -> ratio_ordered 2 k w ->
  cooperative 2 k m pi w x -> filled_from_left k m x.
Proof.
  intros W P Ro O. assert (N : (0 < 2)%nat) by lia. apply (staircase_filled 2); [exact N|apply O| |].
  - now apply (cooperative_used 2 k m pi w x N W P).
  - now apply (two_users_staircase 2 k m pi w x N W P).
Qed.
Example cooperative_two_filled_met : can_be_met cooperative_two_filled.
Proof. met_by (powers_cooperative 2 3 numbers). Qed.

(* Claim oef/thm-5.2-cooperative-two: every optimum of cooperative OEF gives two users adjacent types. *)
Theorem cooperative_two_adjacent k m pi w x : (forall j, (j < k)%nat -> 0 < m j) -> weights 2 pi -> positive 2 k w ->
  ratio_ordered 2 k w -> cooperative 2 k m pi w x -> adjacent_types 2 k x.
Proof.
  intros M W P Ro O. assert (N : (0 < 2)%nat) by lia. apply (staircase_adjacent 2 k m); [exact M| |].
  - now apply (cooperative_used 2 k m pi w x N W P).
  - now apply (two_users_staircase 2 k m pi w x N W P).
Qed.
Example cooperative_two_adjacent_met : can_be_met cooperative_two_adjacent.
Proof. met_by (powers_cooperative 2 3 numbers). Qed.

(* -- Cooperative OEF with two GPU types --------------------------------------------------------------------------- *)

Lemma sum_product n u v : sum n (fun l => sum n (fun h => u l * v h)) = sum n u * sum n v.
Proof.
  rewrite (sum_ext n _ (fun l => sum n v * u l)) by (intros; rewrite sum_scal; ring). rewrite sum_scal. ring.
Qed.

(* Let a user's bundle have a_l GPUs of type 1 and b_l of type 2. With r_l the speedup on type 2, of two users the one
   with the larger r has the larger b / pi. *)
Lemma two_types_pair (pl ph rl rh al ah bl bh r : R) : 0 < pl -> 0 < ph -> 0 < r -> r <= rl -> rl <= rh -> 0 <= al ->
  0 <= ah -> pl * (ah + rl * bh) <= ph * (al + rl * bl) ->
  r * ((rh - rl) * (pl * bh - ph * bl)) <= (rh - r) * (ph * al).
Proof.
  intros Pl Ph R Rl Rh Al Ah E. assert (0 <= ph * al) by nra. assert (0 <= pl * ah) by nra.
  destruct (Rle_lt_dec (pl * bh - ph * bl) 0) as [D|D].
  - assert (r * ((rh - rl) * (pl * bh - ph * bl)) <= 0); [|nra].
    replace (r * ((rh - rl) * (pl * bh - ph * bl))) with (r * (rh - rl) * (pl * bh - ph * bl)) by ring.
    assert (0 <= r * (rh - rl)) by nra. nra.
  - assert (r * (pl * bh - ph * bl) <= ph * al) by nra.
    assert ((rh - rl) * (r * (pl * bh - ph * bl)) <= (rh - rl) * (ph * al)) by (apply Rmult_le_compat_l; lra).
    assert ((rh - rl) * (ph * al) <= (rh - r) * (ph * al)) by (apply Rmult_le_compat_r; lra). lra.
Qed.

(* Claim oef/lemma-3.1-cooperative-two-types: Lemma 3.1 for cooperative OEF with two GPU types and any number of
   ratio-ordered users, every optimum. *)
Theorem cooperative_two_types_filled n m pi w x : (0 < n)%nat -> weights n pi -> positive n 2 w -> normalised n w ->
  ratio_ordered n 2 w -> cooperative n 2 m pi w x -> filled_from_left 2 m x.
Proof.
  intros N W P One Ro O i j I P1. assert (i = 0 /\ j = 1)%nat as (-> & ->) by lia.
  pose proof (cooperative_used n 2 m pi w x N W P O) as U.
  apply (first_has_all n 2 m x 0); auto; [apply O|]. intros g G Pg.
  set (r := fun l => w l 1%nat). set (a := fun l => x l 0%nat). set (b := fun l => x l 1%nat).
  assert (Rp : forall l, (l < n)%nat -> 0 < r l) by (intros; apply P; lia).
  assert (Ro' : forall l h, (l < h < n)%nat -> r l < r h).
  { intros l h L. specialize (Ro l h 0%nat 1%nat L ltac:(lia)). rewrite !One in Ro by lia. unfold r. lra. }
  assert (R0 : forall l, (l < n)%nat -> r 0%nat <= r l).
  { intros l L. destruct (Nat.eq_dec l 0) as [->|D]; [lra|]. apply Rlt_le, Ro'. lia. }
  assert (Dot : forall l v, (l < n)%nat -> dot 2 (w l) v = v 0%nat + r l * v 1%nat).
  { intros l v L. unfold dot; cbn. rewrite One by auto. unfold r. ring. }
  assert (Envy : forall l h, (l < n)%nat -> (h < n)%nat -> pi l * (a h + r l * b h) <= pi h * (a l + r l * b l)).
  { intros l h L H. destruct O as (_ & E & _). specialize (E l h L H). unfold rate in E. now rewrite !Dot in E. }
  assert (Na : forall l, (l < n)%nat -> 0 <= a l) by (intros l L; apply O; lia).
  assert (Nb : forall l, (l < n)%nat -> 0 < b l).
  { intros l L. destruct (Nat.eq_dec l 0) as [->|D]; [exact P1|].
    pose proof (Envy l 0%nat L N) as E1. pose proof (Envy 0%nat l N L) as E2. specialize (Ro' 0%nat l ltac:(lia)).
    pose proof (W l L). pose proof (W 0%nat N). change (0 < b 0%nat) in P1.
    assert (0 <= (r l - r 0%nat) * (pi 0%nat * b l - pi l * b 0%nat)) by nra.
    assert (0 < pi l * b 0%nat) by nra. assert (0 <= pi 0%nat * b l - pi l * b 0%nat) by nra. nra. }
  assert (A : sum n a = m 0%nat) by (apply (U 0%nat); lia).
  assert (B : sum n b = m 1%nat) by (apply (U 1%nat); lia).
  set (Q := sum n pi). assert (Q0 : 0 < Q) by now apply weights_sum with 0%nat.
  set (S := sum n (fun l => pi l * r l)).
  (* all users but the first have equal bundles, in which there is no type 1, and the first does not envy them *)
  set (c := m 0%nat / (pi 0%nat * r 0%nat)). set (e := (m 1%nat - (Q - pi 0%nat) * c) / Q).
  pose proof (W 0%nat N) as W0. pose proof (Rp 0%nat N) as Rp0.
  assert (C : c * (pi 0%nat * r 0%nat) = m 0%nat) by (unfold c; field; lra).
  assert (E : Q * e = m 1%nat - (Q - pi 0%nat) * c) by (unfold e; field; lra).
  set (y := fun l s => match s with O => m 0%nat * ind 0 l | _ => pi l * (e + c) - pi l * c * ind 0 l end).
  assert (Y0 : used n y 0 = m 0%nat).
  { unfold used, y. rewrite sum_scal, sum_one by auto. ring. }
  assert (Y1 : used n y 1 = m 1%nat).
  { unfold used, y. rewrite (sum_ext n _ (fun l => (e + c) * pi l - ind 0 l * (pi l * c))) by (intros; ring).
    rewrite sum_minus, sum_scal, (sum_ind n (fun l => pi l * c)) by auto. fold Q. lra. }
  assert (Ty : total n 2 w y = S * (e + c)).
  { unfold total, rate. rewrite (sum_ext n _ (fun l => (e + c) * (pi l * r l) +
      ind 0 l * (m 0%nat - r l * pi l * c))) by (intros; rewrite Dot by auto; unfold y; ring).
    rewrite sum_plus, sum_scal, (sum_ind n (fun l => m 0%nat - r l * pi l * c)) by auto. fold S. rewrite <- C. ring. }
  assert (Tx : total n 2 w x = m 0%nat + sum n (fun l => r l * b l)).
  { rewrite <- A, <- sum_plus. apply sum_ext; intros. unfold rate. now rewrite Dot. }
  assert (M0 : 0 <= m 0%nat) by (rewrite <- A; apply sum_nonneg, Na).
  (* its total is larger *)
  assert (Less : r 0%nat * (Q * sum n (fun l => r l * b l) - S * m 1%nat) < (S - r 0%nat * Q) * m 0%nat).
  { set (f := fun l h => r 0%nat * ((r h - r l) * (pi l * b h - pi h * b l))).
    set (g1 := fun l h => (r h - r 0%nat) * (pi h * a l)).
    assert (Hle : forall l h, (l < n)%nat -> (h < n)%nat -> f l h <= g1 l h + g1 h l).
    { assert (Pos : forall l h, (l < n)%nat -> (h < n)%nat -> 0 <= g1 l h).
      { intros l h L H. unfold g1. specialize (R0 h H). specialize (W h H). specialize (Na l L).
        apply Rmult_le_pos; nra. }
      assert (Half : forall l h, (l < h < n)%nat -> f l h <= g1 l h).
      { intros l h L. unfold f, g1. apply two_types_pair with (a h); auto; try (apply W; lia); try (apply Na; lia);
          try (apply Envy; lia); [apply R0; lia|]. apply Rlt_le, Ro'. lia. }
      intros l h L H. pose proof (Pos l h L H). pose proof (Pos h l H L).
      destruct (Nat.lt_trichotomy l h) as [D|[->|D]].
      - specialize (Half l h ltac:(lia)). lra.
      - unfold f. replace (r h - r h) with 0 by ring. lra.
      - specialize (Half h l ltac:(lia)). replace (f l h) with (f h l) by (unfold f; ring). lra. }
    assert (Hlt : sum n (fun l => sum n (fun h => f l h)) < sum n (fun l => sum n (fun h => g1 l h + g1 h l))).
    { apply sum_lt with g; [|lia|].
      - intros l L. apply sum_le; auto.
      - apply sum_lt with g; [intros; apply Hle; auto; lia|lia|].
        unfold f, g1. replace (r g - r g) with 0 by ring. specialize (Ro' 0%nat g ltac:(lia)).
        pose proof (W g ltac:(lia)). change (0 < a g) in Pg. assert (0 < pi g * a g) by nra. nra. }
    replace (sum n (fun l => sum n (fun h => f l h)))
      with (r 0%nat * (2 * (Q * sum n (fun l => r l * b l) - S * sum n b))) in Hlt.
    - replace (sum n (fun l => sum n (fun h => g1 l h + g1 h l)))
        with (2 * ((S - r 0%nat * Q) * sum n a)) in Hlt; [rewrite A, B in Hlt; lra|].
      rewrite (sum_ext n (fun l => sum n (fun h => g1 l h + g1 h l))
        (fun l => sum n (fun h => g1 l h) + sum n (fun h => g1 h l))) by (intros; apply sum_plus).
      rewrite sum_plus, (sum_swap n n (fun l h => g1 h l)).
      assert (G1 : sum n (fun l => sum n (fun h => g1 l h)) = sum n a * (S - r 0%nat * Q)).
      { replace (S - r 0%nat * Q) with (sum n (fun h => pi h * r h - r 0%nat * pi h))
          by (rewrite sum_minus, sum_scal; reflexivity).
        rewrite <- sum_product. apply sum_ext; intros l L. apply sum_ext; intros h H. unfold g1. ring. }
      rewrite G1. ring.
    - replace (r 0%nat * (2 * (Q * sum n (fun l => r l * b l) - S * sum n b)))
        with (r 0%nat * (Q * sum n (fun l => r l * b l)) + r 0%nat * (sum n (fun l => r l * b l) * Q)
          - (r 0%nat * (S * sum n b) + r 0%nat * (sum n b * S))) by ring.
      unfold Q, S. rewrite <- !sum_product, <- !sum_scal, <- !sum_plus, <- sum_minus.
      apply sum_ext; intros l L. rewrite <- !sum_scal, <- !sum_plus, <- sum_minus.
      apply sum_ext; intros h H. unfold f. ring. }
  assert (More : total n 2 w x < total n 2 w y).
  { rewrite Tx, Ty. apply Rmult_lt_reg_l with (r 0%nat * Q); [nra|].
    replace (r 0%nat * Q * (S * (e + c))) with (S * (r 0%nat * (Q * e) + r 0%nat * Q * c)) by ring. rewrite E.
    replace (S * (r 0%nat * (m 1%nat - (Q - pi 0%nat) * c) + r 0%nat * Q * c))
      with (S * (r 0%nat * m 1%nat + c * (pi 0%nat * r 0%nat))) by ring. rewrite C. lra. }
  (* a small step towards it is possible, since every user has GPUs of type 2 *)
  set (d := move y x (-1)).
  assert (Dd : forall l v, dot 2 v (d l) = dot 2 v (y l) - dot 2 v (x l)).
  { intros l v. unfold d. rewrite dot_move. ring. }
  assert (Less' : total n 2 w d <= 0).
  { apply (cooperative_no_gain n 2 m pi w x d O).
    - split.
      + intros l s L K. assert (s = 0 \/ s = 1)%nat as [-> | ->] by lia; [|left; now apply Nb].
        destruct (Rle_lt_dec (x l 0%nat) 0) as [Z|Z]; [right|now left].
        unfold d, move, y, ind. destruct Nat.eqb; lra.
      + intros s K. right. unfold used, d, move.
        rewrite (sum_ext n _ (fun l => y l s - x l s)) by (intros; ring). rewrite sum_minus.
        fold (used n y s). fold (used n x s). rewrite U by auto.
        assert (s = 0 \/ s = 1)%nat as [-> | ->] by lia; lra.
    - intros l h L H. destruct (Rle_lt_dec (pi h * rate 2 w x l) (pi l * dot 2 (w l) (x h))) as [T|T]; [right|now left].
      unfold rate in *. rewrite !Dd. enough (pi l * dot 2 (w l) (y h) <= pi h * dot 2 (w l) (y l)) by lra.
      rewrite !Dot by auto. unfold y, ind. pose proof (W l L). pose proof (W h H).
      destruct (Nat.eqb_spec l 0) as [->|Dl], (Nat.eqb_spec h 0) as [->|Dh].
      + apply Rle_refl.
      + rewrite <- C. right; ring.
      + pose proof (R0 l L). rewrite <- C. assert (0 <= c * pi 0%nat * pi l); [|nra].
        assert (0 <= c); [|nra]. apply Rmult_le_reg_r with (pi 0%nat * r 0%nat); nra.
      + right; ring. }
  apply (Rlt_not_le _ _ More).
  replace (total n 2 w y) with (total n 2 w x + total n 2 w d); [lra|].
  unfold total, rate. rewrite <- sum_plus. apply sum_ext; intros. rewrite Dd. ring.
Qed.
Example cooperative_two_types_filled_met : can_be_met cooperative_two_types_filled.
Proof. met_by (powers_cooperative 4 2 numbers). Qed.

(* -- Cooperative OEF with three users ----------------------------------------------------------------------------- *)

Lemma last_index (P : nat -> Prop) n : (exists i, (i < n)%nat /\ P i) ->
  exists i, (i < n)%nat /\ P i /\ forall j, (i < j < n)%nat -> ~ P j.
Proof.
  intros E. destruct (largest_index n P INR E) as (i & I & Pi & Last). exists i. repeat split; auto.
  intros j J Pj. specialize (Last j (proj2 J) Pj). apply INR_le in Last. lia.
Qed.

Section Trades.
Variables n k : nat.
Variable m : nat -> R.
Variables w x : table.
Hypothesis cooperative_x : cooperative n k m equal w x.

(* Users gain A_l GPUs of type i and B_l of type j, and q_l = w_l^i / w_l^j. *)
Lemma no_trade i j (A B q : nat -> R) : (i < k)%nat -> (j < k)%nat -> i <> j ->
  (forall l, (l < n)%nat -> 0 <= w l j /\ w l i = q l * w l j) -> sum n A = 0 -> sum n B = 0 ->
  (forall l, (l < n)%nat -> (0 < x l i \/ 0 <= A l) /\ (0 < x l j \/ 0 <= B l)) ->
  (forall l h, (l < n)%nat -> (h < n)%nat -> dot k (w l) (x h) < rate k w x l \/ B h + q l * A h <= B l + q l * A l) ->
  sum n (fun l => w l j * (B l + q l * A l)) <= 0.
Proof.
  intros I J D Q A0 B0 Has Envy. set (d := fun l s => A l * ind i s + B l * ind j s).
  assert (Dd : forall l h, (l < n)%nat -> dot k (w l) (d h) = w l j * (B h + q l * A h)).
  { intros l h L. unfold d. rewrite dot_plus, !dot_scal, !dot_ind by auto. rewrite (proj2 (Q l L)). ring. }
  assert (T : total n k w d <= 0).
  { apply (cooperative_no_gain n k m equal w x d cooperative_x).
    - split.
      + intros l s L S. destruct (Has l L) as (HA & HB). unfold d, ind.
        destruct (Nat.eqb_spec s i) as [Ei|Di], (Nat.eqb_spec s j) as [Ej|Dj]; [lia| | |right; lra].
        * destruct HA; [left; now subst|right; lra].
        * destruct HB; [left; now subst|right; lra].
      + intros s S. right. unfold used, d. rewrite sum_plus.
        rewrite (sum_ext n (fun l => A l * ind i s) (fun l => ind i s * A l)) by (intros; ring).
        rewrite (sum_ext n (fun l => B l * ind j s) (fun l => ind j s * B l)) by (intros; ring).
        rewrite !sum_scal, A0, B0. lra.
    - intros l h L H. unfold equal, rate. rewrite !Dd by auto. destruct (Envy l h L H) as [E|E]; [left|right].
      + unfold rate in E. lra.
      + destruct (Q l L) as (Qw & _). rewrite !Rmult_1_l. now apply Rmult_le_compat_l. }
  revert T. unfold total. rewrite (sum_ext n _ (fun l => w l j * (B l + q l * A l))); auto.
  intros l L. unfold rate. now rewrite Dd.
Qed.

Lemma dot_mean c u v : dot k c (fun s => (u s + v s) / 2) = (dot k c u + dot k c v) / 2.
Proof.
  unfold Rdiv. rewrite (Rmult_comm (_ + _)), <- dot_plus, <- dot_scal. apply sum_ext; intros; field.
Qed.

(* Users that do not mind their exchanged bundles: the mean of both allocations is an optimum as well. *)
Lemma mean_cooperative (s : nat -> nat) : (forall l, (l < n)%nat -> (s l < n)%nat) ->
  (forall j, (j < k)%nat -> used n (fun l => x (s l)) j = used n x j) ->
  (forall l, (l < n)%nat -> dot k (w l) (x (s l)) = rate k w x l) ->
  cooperative n k m equal w (fun l j => (x l j + x (s l) j) / 2).
Proof.
  intros S U Tight. destruct cooperative_x as ((X & C) & E & B).
  assert (Rate : forall l, (l < n)%nat -> rate k w (fun l j => (x l j + x (s l) j) / 2) l = rate k w x l).
  { intros l L. unfold rate. rewrite dot_mean, Tight by auto. unfold rate. lra. }
  repeat split.
  - intros l j L J. pose proof (X l j L J). pose proof (X (s l) j (S l L) J). lra.
  - intros j J. specialize (C j J). specialize (U j J). unfold used in *.
    rewrite (sum_ext n _ (fun l => / 2 * (x l j + x (s l) j))) by (intros; field).
    rewrite sum_scal, sum_plus, U. lra.
  - intros l h L H. rewrite Rate, dot_mean by auto. unfold equal in *.
    pose proof (E l h L H). pose proof (E l (s h) L (S h H)). lra.
  - intros y F G. replace (total n k w (fun l j => (x l j + x (s l) j) / 2)) with (total n k w x); auto.
    apply sum_ext; intros. now rewrite Rate.
Qed.

End Trades.

(* a, b or c for the first, second or third user *)
Definition three {A} (a b c : A) (l : nat) : A := match l with O => a | 1%nat => b | _ => c end.

Lemma below_three (P : nat -> Prop) : (forall l, (l < 3)%nat -> P l) <-> P 0%nat /\ P 1%nat /\ P 2%nat.
Proof.
  split; [intros H; repeat split; apply H; lia|]. intros (A & B & C) l L.
  destruct l as [|[|[|l]]]; auto; lia.
Qed.

Section Three.
Variable k : nat.
Variable m : nat -> R.
Variable w : table.
Hypothesis w_positive : positive 3 k w.
Hypothesis w_normalised : normalised 3 w.
Hypothesis w_ordered : ratio_ordered 3 k w.
Variables i j : nat.
Hypothesis types : (i < j < k)%nat.

Let q (l : nat) : R := w l i / w l j.

Lemma quotient l : (l < 3)%nat -> 0 < w l j /\ w l i = q l * w l j.
Proof.
  intros L. assert (0 < w l j) by (apply w_positive; lia). split; auto. unfold q. field. lra.
Qed.

Lemma quotients : q 2%nat < q 1%nat < q 0%nat /\ 0 < q 2%nat.
Proof.
  assert (D : forall l h, (l < h < 3)%nat -> q h < q l).
  { intros l h L. destruct (quotient l) as (Wl & El); [lia|]. destruct (quotient h) as (Wh & Eh); [lia|].
    pose proof (w_ordered l h i j L types) as O. rewrite El, Eh in O.
    apply Rmult_lt_reg_r with (w l j * w h j); [now apply Rmult_lt_0_compat|]. lra. }
  repeat split; try (apply D; lia). apply Rdiv_lt_0_compat; apply w_positive; lia.
Qed.

Lemma faster : w 0%nat j <= w 1%nat j <= w 2%nat j.
Proof.
  assert (R : weakly_ratio_ordered 3 k w) by (intros l h a b L A; apply Rlt_le; now apply w_ordered).
  split; apply (later_users_faster 3 k w); auto; lia.
Qed.

Section Optimum.
Variable x : table.
Hypothesis cooperative_x : cooperative 3 k m equal w x.

(* User l does not mind the bundle of user h. *)
Let strict (l h : nat) : Prop := dot k (w l) (x h) < rate k w x l.

Lemma no_trade_three A0 A1 A2 B0 B1 B2 : A0 + A1 + A2 = 0 -> B0 + B1 + B2 = 0 ->
  (0 < x 0%nat i \/ 0 <= A0) -> (0 < x 1%nat i \/ 0 <= A1) -> (0 < x 2%nat i \/ 0 <= A2) ->
  (0 < x 0%nat j \/ 0 <= B0) -> (0 < x 1%nat j \/ 0 <= B1) -> (0 < x 2%nat j \/ 0 <= B2) ->
  (strict 0 1 \/ B1 + q 0%nat * A1 <= B0 + q 0%nat * A0) -> (strict 0 2 \/ B2 + q 0%nat * A2 <= B0 + q 0%nat * A0) ->
  (strict 1 0 \/ B0 + q 1%nat * A0 <= B1 + q 1%nat * A1) -> (strict 1 2 \/ B2 + q 1%nat * A2 <= B1 + q 1%nat * A1) ->
  (strict 2 0 \/ B0 + q 2%nat * A0 <= B2 + q 2%nat * A2) -> (strict 2 1 \/ B1 + q 2%nat * A1 <= B2 + q 2%nat * A2) ->
  w 0%nat j * (B0 + q 0%nat * A0) + w 1%nat j * (B1 + q 1%nat * A1) + w 2%nat j * (B2 + q 2%nat * A2) <= 0.
Proof.
  intros A B X0 X1 X2 Y0 Y1 Y2 E01 E02 E10 E12 E20 E21.
  assert (T : sum 3 (fun l => w l j * (three B0 B1 B2 l + q l * three A0 A1 A2 l)) <= 0); [|cbn in T; lra].
  apply (no_trade 3 k m w x cooperative_x i j); try lia.
  - intros l L. destruct (quotient l L) as (W & E). split; [lra|exact E].
  - cbn. lra.
  - cbn. lra.
  - apply below_three. cbn. auto.
  - intros l h L H. destruct l as [|[|[|l]]], h as [|[|[|h]]]; try lia; cbn; auto; right; lra.
Qed.

(* The last user has no type that is earlier than a type of the first: all gain g in units of the speedup on type j. *)
Lemma last_has_none : 0 < x 0%nat j -> ~ 0 < x 2%nat i.
Proof.
  intros P0 P2. destruct quotients as ((Q1 & Q2) & Q3). pose proof faster as F.
  destruct (quotient 0) as (W & _); [lia|]. set (g := (q 0%nat - q 2%nat) / 3).
  assert (G : q 0%nat = q 2%nat + 3 * g) by (unfold g; field).
  pose proof (no_trade_three 1 0 (-1) (- (2 * g + q 2%nat)) g (g + q 2%nat)) as T.
  assert (0 < (w 0%nat j + w 1%nat j + w 2%nat j) * g) by (apply Rmult_lt_0_compat; lra).
  enough (w 0%nat j * g + w 1%nat j * g + w 2%nat j * g <= 0) by lra.
  replace (w 0%nat j * g) with (w 0%nat j * (- (2 * g + q 2%nat) + q 0%nat * 1)) by (rewrite G; ring).
  replace (w 1%nat j * g) with (w 1%nat j * (g + q 1%nat * 0)) by ring.
  replace (w 2%nat j * g) with (w 2%nat j * (g + q 2%nat + q 2%nat * -1)) by ring.
  apply T; try (left; assumption); try lra; right; lra.
Qed.

(* Nor has the second, if the last would mind its bundle after equal gains. *)
Lemma second_has_none_strict : 0 < x 0%nat j -> 0 < x 1%nat i -> ~ strict 2 1.
Proof.
  intros P0 P1 S. destruct quotients as ((Q1 & Q2) & Q3). pose proof faster as F.
  destruct (quotient 0) as (W & _); [lia|]. set (g := (q 0%nat - q 1%nat) / 3).
  assert (G : q 0%nat = q 1%nat + 3 * g) by (unfold g; field).
  pose proof (no_trade_three 1 (-1) 0 (- (2 * g + q 1%nat)) (g + q 1%nat) g) as T.
  assert (0 < (w 0%nat j + w 1%nat j + w 2%nat j) * g) by (apply Rmult_lt_0_compat; lra).
  enough (w 0%nat j * g + w 1%nat j * g + w 2%nat j * g <= 0) by lra.
  replace (w 0%nat j * g) with (w 0%nat j * (- (2 * g + q 1%nat) + q 0%nat * 1)) by (rewrite G; ring).
  replace (w 1%nat j * g) with (w 1%nat j * (g + q 1%nat + q 1%nat * -1)) by ring.
  replace (w 2%nat j * g) with (w 2%nat j * (g + q 2%nat * 0)) by ring.
  apply T; try (left; assumption); try lra; right; lra.
Qed.

(* With a larger gain of the last user. *)
Lemma second_has_none_last : 0 < x 0%nat j -> 0 < x 1%nat i -> ~ (strict 1 2 /\ strict 0 2).
Proof.
  intros P0 P1 (S1 & S0). destruct quotients as ((Q1 & Q2) & Q3). pose proof faster as F.
  destruct (quotient 0) as (W & _); [lia|].
  set (e := q 1%nat - q 2%nat). set (g := (q 0%nat - q 1%nat - e) / 3).
  assert (G : q 0%nat = q 1%nat + e + 3 * g) by (unfold g; field).
  assert (E : q 2%nat = q 1%nat - e) by (unfold e; ring).
  pose proof (no_trade_three 1 (-1) 0 (- (2 * g + e + q 1%nat)) (g + q 1%nat) (g + e)) as T.
  assert (0 < (w 0%nat j + w 1%nat j + w 2%nat j) * (3 * g + e)) by (apply Rmult_lt_0_compat; lra).
  assert (0 <= e * (w 2%nat j - w 0%nat j)) by (apply Rmult_le_pos; lra).
  assert (0 <= e * (w 2%nat j - w 1%nat j)) by (apply Rmult_le_pos; lra).
  enough (w 0%nat j * g + w 1%nat j * g + w 2%nat j * (g + e) <= 0) by lra.
  replace (w 0%nat j * g) with (w 0%nat j * (- (2 * g + e + q 1%nat) + q 0%nat * 1)) by (rewrite G; ring).
  replace (w 1%nat j * g) with (w 1%nat j * (g + q 1%nat + q 1%nat * -1)) by ring.
  replace (w 2%nat j * (g + e)) with (w 2%nat j * (g + e + q 2%nat * 0)) by ring.
  apply T; try (left; assumption); try lra; right; lra.
Qed.

(* The last user and the second exchange types a < b so that the first is indifferent. *)
Lemma no_exchange_two a b : (a < b < k)%nat -> strict 1 0 -> strict 1 2 -> ~ (0 < x 2%nat a /\ 0 < x 1%nat b).
Proof.
  intros I S0 S2 (Pa & Pb). set (d := swap 1 2 a b (w 0%nat b) (w 0%nat a)).
  assert (Wp : forall l s, (l < 3)%nat -> (s < k)%nat -> 0 < w l s) by auto.
  assert (D : forall l h, dot k (w l) (d h) = (ind 1 h - ind 2 h) * (w 0%nat b * w l a - w 0%nat a * w l b)).
  { intros l h. apply dot_swap; lia. }
  pose proof (w_ordered 0%nat 2%nat a b ltac:(lia) I) as R02.
  pose proof (w_ordered 0%nat 1%nat a b ltac:(lia) I) as R01.
  pose proof (w_ordered 1%nat 2%nat a b ltac:(lia) I) as R12.
  assert (T : total 3 k w d <= 0).
  { apply (cooperative_no_gain 3 k m equal w x d cooperative_x).
    - apply swap_possible; auto; try lia; [apply cooperative_x| |]; apply Rlt_le, Wp; lia.
    - unfold equal, rate. intros l h L H. rewrite !D.
      destruct l as [|[|[|l]]], h as [|[|[|h]]]; try lia; cbn;
        try (right; lra); left; unfold strict, rate in *; lra. }
  unfold total, rate in T. cbn in T. rewrite !D in T. cbn in T.
  assert (W12 : w 1%nat a <= w 2%nat a).
  { apply (later_users_faster 3 k w); auto; try lia. intros l h s t L A; apply Rlt_le; now apply w_ordered. }
  pose proof (Wp 0%nat b ltac:(lia) ltac:(lia)) as W0b. pose proof (Wp 1%nat a ltac:(lia) ltac:(lia)) as W1a.
  pose proof (Wp 0%nat a ltac:(lia) ltac:(lia)) as W0a. pose proof (Wp 2%nat a ltac:(lia) ltac:(lia)) as W2a.
  assert (w 0%nat a * (w 2%nat b - w 1%nat b) <= w 0%nat b * (w 2%nat a - w 1%nat a)) by lra.
  assert (0 < w 0%nat a * (w 1%nat a * w 2%nat b - w 1%nat b * w 2%nat a)) by (apply Rmult_lt_0_compat; lra).
  assert (0 <= (w 2%nat a - w 1%nat a) * (w 0%nat a * w 1%nat b - w 0%nat b * w 1%nat a))
    by (apply Rmult_le_pos; lra).
  nra.
Qed.

End Optimum.

Lemma second_has_none x : cooperative 3 k m equal w x -> 0 < x 0%nat j -> ~ 0 < x 1%nat i.
Proof.
  intros O P0 P1. pose proof (last_has_none x O P0) as P2.
  assert (E : forall l h, (l < 3)%nat -> (h < 3)%nat -> dot k (w l) (x h) <= rate k w x l).
  { intros l h L H. destruct O as (_ & E & _). specialize (E l h L H). unfold equal in E. lra. }
  assert (X : forall l s, (l < 3)%nat -> (s < k)%nat -> 0 <= x l s) by (intros; now apply O).
  (* exchanged bundles after which the last user has type i: impossible *)
  assert (Cycle : forall s : nat -> nat, s 2%nat = 1%nat -> (forall l, (l < 3)%nat -> (s l < 3)%nat) ->
    (forall l, (l < 3)%nat -> dot k (w l) (x (s l)) = rate k w x l) ->
    ~ forall t, (t < k)%nat -> used 3 (fun l => x (s l)) t = used 3 x t).
  { intros s S2 S T U. apply (last_has_none _ (mean_cooperative 3 k m w x O s S U T)).
    - pose proof (X (s 0%nat) j (S 0%nat ltac:(lia)) ltac:(lia)). lra.
    - rewrite S2. pose proof (X 2%nat i ltac:(lia) ltac:(lia)). lra. }
  assert (T21 : dot k (w 2%nat) (x 1%nat) = rate k w x 2).
  { apply Rle_antisym; [apply E; lia|]. apply Rnot_lt_le. now apply second_has_none_strict. }
  destruct (Rle_lt_dec (rate k w x 1) (dot k (w 1%nat) (x 2%nat))) as [T12|S12].
  { apply (Cycle (three 0 2 1)%nat); auto.
    - intros l L. destruct l as [|[|[|l]]]; cbn; lia.
    - intros l L. destruct l as [|[|[|l]]]; cbn; auto; try lia. apply Rle_antisym; auto.
    - intros t K. unfold used. cbn. ring. }
  destruct (Rle_lt_dec (rate k w x 0) (dot k (w 0%nat) (x 2%nat))) as [T02|S02];
    [|apply (second_has_none_last x O P0 P1); now split].
  destruct (Rle_lt_dec (rate k w x 1) (dot k (w 1%nat) (x 0%nat))) as [T10|S10].
  { apply (Cycle (three 2 0 1)%nat); auto.
    - intros l L. destruct l as [|[|[|l]]]; cbn; lia.
    - intros l L. destruct l as [|[|[|l]]]; cbn; auto; try lia; apply Rle_antisym; auto.
    - intros t K. unfold used. cbn. ring. }
  (* D = x_3 - x_2 is worth nothing to the last user and not less to the first, so some later type has D < 0 *)
  set (D := fun s => x 2%nat s - x 1%nat s).
  assert (Dot : forall l, dot k (w l) D = dot k (w l) (x 2%nat) - dot k (w l) (x 1%nat)).
  { intros l. unfold D, dot. rewrite <- sum_minus. apply sum_ext; intros; ring. }
  assert (D2 : dot k (w 2%nat) D = 0) by (rewrite Dot, T21; unfold rate; ring).
  assert (D0 : 0 <= dot k (w 0%nat) D) by (rewrite Dot; specialize (E 0%nat 1%nat ltac:(lia) ltac:(lia)); lra).
  assert (Di : D i < 0) by (unfold D; pose proof (X 2%nat i ltac:(lia) ltac:(lia)); lra).
  destruct (last_index (fun s => D s < 0) k) as (b & B & Db & Last).
  { exists i. split; [lia|exact Di]. }
  destruct (classic (exists a, (a < b)%nat /\ 0 < D a)) as [(a & A & Da)|None].
  - apply (no_exchange_two x O a b); [lia|exact S10|exact S12|].
    unfold D in Da, Db. pose proof (X 2%nat b ltac:(lia) B). pose proof (X 1%nat a ltac:(lia) ltac:(lia)). lra.
  - assert (Wb : 0 < w 0%nat b /\ 0 < w 2%nat b) by (split; apply w_positive; lia).
    assert (Le : forall s, (s < k)%nat -> w 2%nat b * (w 0%nat s * D s) <= w 0%nat b * (w 2%nat s * D s)).
    { intros s S. destruct (Nat.lt_trichotomy s b) as [L|[->|L]].
      - assert (D s <= 0) by (apply Rnot_lt_le; intros Ds; apply None; now exists s).
        pose proof (w_ordered 0%nat 2%nat s b ltac:(lia) ltac:(lia)). nra.
      - right; ring.
      - assert (0 <= D s) by (apply Rnot_lt_le; apply (Last s); lia).
        pose proof (w_ordered 0%nat 2%nat b s ltac:(lia) ltac:(lia)). nra. }
    assert (Pos : exists c, (c < k)%nat /\ 0 < D c).
    { apply NNPP. intros No. apply (Rlt_irrefl 0). rewrite <- D2 at 1. unfold dot.
      rewrite <- (sum_zero k (fun _ => 0)) by auto. apply sum_lt with i; [|lia|].
      - intros s S. assert (D s <= 0) by (apply Rnot_lt_le; intros Ds; apply No; now exists s).
        pose proof (w_positive 2%nat s ltac:(lia) S). nra.
      - pose proof (w_positive 2%nat i ltac:(lia) ltac:(lia)). nra. }
    destruct Pos as (c & C & Dc).
    assert (Lt : w 2%nat b * dot k (w 0%nat) D < w 0%nat b * dot k (w 2%nat) D); [|rewrite D2 in Lt; nra].
    unfold dot. rewrite <- !sum_scal. apply sum_lt with c; auto.
    assert (b < c)%nat.
    { destruct (Nat.lt_trichotomy b c) as [|[<-|L]]; auto; [lra|]. exfalso. apply None. now exists c. }
    pose proof (w_ordered 0%nat 2%nat b c ltac:(lia) ltac:(lia)). nra.
Qed.

End Three.

(* Claim oef/lemma-3.1-cooperative-three: Lemma 3.1 for cooperative OEF with three users. *)
Theorem cooperative_three_filled k m w x : positive 3 k w -> normalised 3 w -> ratio_ordered 3 k w ->
  cooperative 3 k m equal w x -> filled_from_left k m x.
Proof.
  intros P One Ro O i j I P0. apply (first_has_all 3 k m x i); [lia|lia|apply O| |].
  - apply (cooperative_used 3 k m equal w x); auto; [apply equal_weights|lia].
  - intros h H Ph. assert (h = 1 \/ h = 2)%nat as [-> | ->] by lia.
    + now apply (second_has_none k m w P One Ro i j I x O).
    + now apply (last_has_none k m w P One Ro i j I x O).
Qed.
Example cooperative_three_filled_met : can_be_met cooperative_three_filled.
Proof. met_by (powers_cooperative 3 3 equal). Qed.

(* -- Vertex optima of non-cooperative OEF (section 4.4) ----------------------------------------------------------- *)

(* A homogeneous system with more unknowns than equations has a solution other than 0. *)
Lemma homogeneous n (rows : list (nat -> R)) : (length rows < n)%nat ->
  exists x, (exists i, (i < n)%nat /\ x i <> 0) /\ Forall (fun a => dot n a x = 0) rows.
Proof.
  revert rows; induction n as [|n IH]; intros rows L; [lia|].
  destruct (classic (exists p, In p rows /\ p n <> 0)) as [(p & I & P)|None].
  - apply in_split in I as (front & back & ->).
    destruct (IH (map (fun a j => a j + - (a n / p n) * p j) (front ++ back))) as (x & (i & I & X) & Sol).
    { rewrite map_length, app_length. rewrite app_length in L. cbn in L. lia. }
    set (t := - (dot n p x / p n)). exists (extended n x t). split.
    { exists i. split; [lia|]. unfold extended. destruct (Nat.eqb_spec i n); [lia|exact X]. }
    assert (H : forall a, In a (front ++ back) -> dot (S n) a (extended n x t) = 0).
    { intros a A. rewrite Forall_map, Forall_forall in Sol. specialize (Sol a A).
      replace (dot n (fun j => a j + - (a n / p n) * p j) x) with (dot n a x + - (a n / p n) * dot n p x) in Sol.
      - rewrite dot_extended. unfold t. rewrite <- Sol. field. exact P.
      - rewrite <- dot_scal_l. unfold dot. rewrite <- sum_plus. apply sum_ext; intros; ring. }
    apply Forall_forall. intros a A. apply in_app_or in A as [A|[<-|A]].
    + apply H, in_or_app. now left.
    + rewrite dot_extended. unfold t. field. exact P.
    + apply H, in_or_app. now right.
  - exists (ind n). split.
    + exists n. split; [lia|]. rewrite ind_same. lra.
    + apply Forall_forall. intros a A. rewrite dot_ind by lia. apply NNPP. intros N. apply None. now exists a.
Qed.

Section Vertices.
Variables n k : nat.

(* The types of which user l has some. *)
Definition types_of (x : table) (l : nat) : list nat :=
  filter (fun j => if Rlt_dec 0 (x l j) then true else false) (seq 0 k).
Definition shares_above_zero (x : table) : nat := list_sum (map (fun l => length (types_of x l)) (seq 0 n)).
Definition users_with_several (x : table) : nat :=
  length (filter (fun l => Nat.ltb 1 (length (types_of x l))) (seq 0 n)).

Variable m : nat -> R.

(* A vertex of the program of non-cooperative OEF: the midpoint of no two other allocations with equal rates. *)
Definition vertex (pi : nat -> R) (w x : table) : Prop :=
  forall y z s t, level n k m pi w y s -> level n k m pi w z t ->
  midpoint n k x y z -> same_shares n k y x.

Lemma vertex_corner pi w x : (0 < n)%nat -> weights n pi ->
  corner n k (capacity_limits n k m ++ equal_rates n pi w) x -> vertex pi w x.
Proof.
  intros N W C y z s t Y Z H. apply (C y z); auto; apply meets_level; auto; [now exists s|now exists t].
Qed.

(* The shares of 0, as pairs. *)
Definition zeros (x : table) : list (nat * nat) :=
  flat_map (fun l => map (fun j => (l, j)) (filter (fun j => if Rlt_dec 0 (x l j) then false else true) (seq 0 k)))
    (seq 0 n).

Lemma zeros_count x : (length (zeros x) + shares_above_zero x = n * k)%nat.
Proof.
  assert (H : forall l js, (length (filter (fun j => if Rlt_dec 0 (x l j) then false else true) js) +
    length (filter (fun j => if Rlt_dec 0 (x l j) then true else false) js) = length js)%nat).
  { intros l js. induction js as [|j js IH]; auto. cbn. destruct Rlt_dec; cbn; lia. }
  unfold zeros, shares_above_zero. rewrite <- (seq_length n 0) at 3.
  induction (seq 0 n) as [|l r IH]; auto. cbn. rewrite app_length, map_length.
  specialize (H l (seq 0 k)). rewrite seq_length in H. unfold list_sum in IH. unfold types_of at 1. lia.
Qed.

Lemma zeros_spec x l j : (l < n)%nat -> (j < k)%nat -> ~ 0 < x l j -> In (l, j) (zeros x).
Proof.
  intros L J X. apply in_flat_map. exists l. split; [apply in_seq; lia|]. apply in_map.
  apply filter_In. split; [apply in_seq; lia|]. destruct Rlt_dec; auto.
Qed.

Lemma no_zero x l j : (l < n)%nat -> (j < k)%nat -> In (l, j) (zeros x) \/ 0 < x l j.
Proof. intros L J. destruct (Rlt_dec 0 (x l j)); [now right|left; now apply zeros_spec]. Qed.

(* A row over the entries of a table and one more unknown. *)
Let row_of (c : table) (b : R) : nat -> R := extended (n * k) (vector k c) b.

(* n + k positive shares or more leave a direction that changes all rates alike. *)
Lemma direction pi w x : (n + k <= shares_above_zero x)%nat -> exists d t, (exists l j, (l < n)%nat /\ (j < k)%nat /\
    d l j <> 0 \/ t <> 0) /\
  (forall l j, (l < n)%nat -> (j < k)%nat -> 0 < x l j \/ d l j = 0) /\
  (forall j, (j < k)%nat -> used n d j = 0) /\ forall l, (l < n)%nat -> rate k w d l = t * pi l.
Proof.
  intros Many. pose proof (zeros_count x) as Z.
  destruct (homogeneous (S (n * k)) (map (fun a => row_of (unit (fst a) (snd a)) 0) (zeros x) ++
    by_users k (fun j => row_of (fun _ => ind j) 0) ++
    by_users n (fun l => row_of (fun i s => ind l i * w l s) (- pi l)))) as (v & (i & I & V) & Sol).
  { unfold by_users. rewrite !app_length, !map_length, !seq_length. lia. }
  rewrite !Forall_app, !by_users_spec, Forall_map, Forall_forall in Sol. destruct Sol as (S1 & S2 & S3).
  exists (matrix k v), (v (n * k)%nat). repeat split.
  - destruct (Nat.eq_dec i (n * k)) as [->|D]; [exists 0%nat, 0%nat; now right|].
    assert (K : k <> 0%nat) by (intros ->; lia).
    exists (i / k)%nat, (i mod k)%nat. left. repeat split.
    + apply Nat.div_lt_upper_bound; lia.
    + now apply Nat.mod_upper_bound.
    + unfold matrix. now rewrite (Nat.mul_comm _ k), <- Nat.div_mod.
  - intros l j L J. destruct (no_zero x l j L J) as [Y|Y]; [right|now left].
    specialize (S1 (l, j) Y). unfold row_of in S1. rewrite dot_matrix in S1. cbn in S1.
    rewrite total_unit in S1 by auto. lra.
  - intros j J. specialize (S2 j J). unfold row_of in S2. rewrite dot_matrix, used_value in S2 by auto. lra.
  - intros l L. specialize (S3 l L). unfold row_of in S3. rewrite dot_matrix, total_row in S3 by auto. unfold rate. lra.
Qed.

(* Claim oef/nonzeros-vertex: a vertex optimum of non-cooperative OEF has at most n + k - 1 shares above 0. *)
Theorem vertex_shares pi w x t : (0 < n)%nat -> weights n pi -> positive n k w -> noncooperative n k m pi w x t ->
  vertex pi w x -> (shares_above_zero x <= n + k - 1)%nat.
Proof.
  intros N W P O V. destruct (Nat.le_gt_cases (n + k) (shares_above_zero x)) as [Many|]; [exfalso|lia].
  destruct (direction pi w x Many) as (d & c & (l & j & Other) & D & U & E).
  set (d' := fun l j => -1 * d l j).
  assert (E' : forall l, dot k (w l) (d' l) = - dot k (w l) (d l)) by (intros; unfold d'; rewrite dot_scal; ring).
  assert (Ds : possible n k m x d /\ possible n k m x d').
  { split; split.
    - intros h s H S. destruct (D h s H S); [now left|right; lra].
    - intros s S. right. rewrite U; auto; lra.
    - intros h s H S. destruct (D h s H S) as [|Z]; [now left|right; unfold d'; rewrite Z; lra].
    - intros s S. right. unfold used, d'. rewrite sum_scal. fold (used n d s). rewrite U; auto; lra. }
  assert (F : meets n k (capacity_limits n k m) x) by (apply meets_capacity, O).
  destruct (short_move n k _ x d F (possible_capacity n k m x d (proj1 Ds))) as (e1 & E1 & M1).
  destruct (short_move n k _ x d' F (possible_capacity n k m x d' (proj2 Ds))) as (e2 & E2 & M2).
  set (e := Rmin e1 e2). assert (E0 : 0 < e) by now apply Rmin_glb_lt.
  pose proof (Rmin_l e1 e2). pose proof (Rmin_r e1 e2). fold e in H, H0.
  assert (Same : same_shares n k (move x d e) x).
  { apply (V _ (move x d' e) (t + e * c) (t - e * c)).
    - split; [apply meets_capacity, M1; lra|]. intros h H'. unfold rate. rewrite dot_move.
      change (rate k w x h + e * rate k w d h = (t + e * c) * pi h). rewrite E, (proj2 (proj1 O)) by auto. ring.
    - split; [apply meets_capacity, M2; lra|]. intros h H'. unfold rate. rewrite dot_move, E'.
      change (rate k w x h + e * - rate k w d h = (t - e * c) * pi h). rewrite E, (proj2 (proj1 O)) by auto. ring.
    - intros h s _ _. unfold move, d'. lra. }
  assert (Zero : forall h s, (h < n)%nat -> (s < k)%nat -> d h s = 0).
  { intros h s H' S. specialize (Same h s H' S). unfold move in Same.
    apply Rmult_eq_reg_l with e; lra. }
  destruct Other as [(L & J & Other)|Other]; [now apply Other, Zero|]. apply Other.
  apply Rmult_eq_reg_r with (pi 0%nat); [|specialize (W 0%nat N); lra]. rewrite <- E by auto.
  rewrite Rmult_0_l. apply sum_zero. intros s S. rewrite Zero by auto. ring.
Qed.

Lemma several_count (f : nat -> nat) (users : list nat) : (forall l, In l users -> (1 <= f l)%nat) ->
  (length (filter (fun l => Nat.ltb 1 (f l)) users) + length users <= list_sum (map f users))%nat.
Proof.
  unfold list_sum. induction users as [|l rest IH]; intros H; [cbn; lia|].
  assert (1 <= f l)%nat by (apply H; now left).
  specialize (IH (fun h I => H h (or_intror I))). cbn [filter map fold_right length].
  destruct (Nat.ltb_spec 1 (f l)); cbn [length]; lia.
Qed.

(* Claim oef/one-type-vertex: at a vertex optimum of non-cooperative OEF at most k - 1 users have several types. *)
Theorem vertex_one_type pi w x t : (0 < n)%nat -> weights n pi -> positive n k w -> noncooperative n k m pi w x t ->
  vertex pi w x -> (users_with_several x <= k - 1)%nat.
Proof.
  intros N W P O V. pose proof (vertex_shares pi w x t N W P O V) as B.
  destruct (classic (forall l, (l < n)%nat -> 1 <= length (types_of x l))%nat) as [Has|Hasnot].
  - pose proof (several_count (fun l => length (types_of x l)) (seq 0 n)) as C. rewrite seq_length in C.
    assert (H : forall l, In l (seq 0 n) -> (1 <= length (types_of x l))%nat).
    { intros l L. apply in_seq in L. apply Has; lia. }
    specialize (C H). unfold users_with_several, shares_above_zero in *. lia.
  - (* a user has nothing: all rates are 0, and no user has GPUs *)
    assert (T : t <= 0).
    { apply Rnot_lt_le. intros T. apply Hasnot. intros l L.
      destruct (sum_pos_term k (fun j => w l j * x l j)) as (j & J & X).
      - change (0 < rate k w x l). rewrite (proj2 (proj1 O)) by auto. apply Rmult_lt_0_compat; auto.
      - assert (I : In j (types_of x l)); [|destruct (types_of x l); [destruct I|cbn; lia]].
        apply filter_In. split; [apply in_seq; lia|]. specialize (P l j L J).
        destruct Rlt_dec as [|Z]; auto. destruct Z. nra. }
    assert (Nothing : forall l, (l < n)%nat -> types_of x l = []).
    { intros l L. destruct (types_of x l) as [|j rest] eqn:Y; auto. exfalso.
      assert (I : In j (types_of x l)) by (rewrite Y; now left). apply filter_In in I as (I & X).
      apply in_seq in I. destruct Rlt_dec as [X'|]; [|discriminate].
      assert (0 < rate k w x l); [|rewrite (proj2 (proj1 O)) in H by auto; specialize (W l L); nra].
      apply Rlt_le_trans with (w l j * x l j); [apply Rmult_lt_0_compat; auto; apply P; lia|].
      apply (sum_term k (fun j => w l j * x l j)); [|lia]. intros s S. apply Rmult_le_pos.
      - apply Rlt_le. auto.
      - now apply O. }
    unfold users_with_several. replace (filter _ _) with (@nil nat); [cbn; lia|]. symmetry.
    assert (A : forall users, (forall l, In l users -> (l < n)%nat) ->
      filter (fun l => Nat.ltb 1 (length (types_of x l))) users = []).
    { induction users as [|l rest IH]; intros U; auto. cbn. rewrite Nothing by (apply U; now left).
      apply IH. intros; apply U; now right. }
    apply A. intros l L. apply in_seq in L. lia.
Qed.

(* Such an optimum exists: the simplex method finds one. *)
Lemma vertex_exists pi w : (0 < n)%nat -> weights n pi -> (forall j, (j < k)%nat -> 0 <= m j) ->
  exists x t, noncooperative n k m pi w x t /\ vertex pi w x.
Proof.
  intros N W M. destruct (noncooperative_corner_exists n k m M pi w N W) as (x & t & O & C). exists x, t. split; auto.
  now apply vertex_corner.
Qed.

End Vertices.

Example vertex_shares_met : can_be_met vertex_shares.
Proof.
  intros H. destruct (vertex_exists 3 3 one_each numbers powers) as (x & t & O & V); case_of_examples.
  apply (H 3%nat 3%nat one_each numbers powers x t); case_of_examples.
Qed.
Example vertex_one_type_met : can_be_met vertex_one_type.
Proof.
  intros H. destruct (vertex_exists 3 3 one_each numbers powers) as (x & t & O & V); case_of_examples.
  apply (H 3%nat 3%nat one_each numbers powers x t); case_of_examples.
Qed.

(* -- Rounding shares to whole GPUs (section 4.3) ------------------------------------------------------------------ *)

Section Deviation.
Variable round : R -> Z.
Variable ideal : nat -> R.

(* dev(t+1) = dev(t) + ideal(t) - real(t), real(t) = round(ideal(t) + dev(t)) *)
Fixpoint deviation (t : nat) : R :=
  match t with O => 0 | S t => deviation t + (ideal t - IZR (round (ideal t + deviation t))) end.
Definition rounded (t : nat) : R := IZR (round (ideal t + deviation t)).
Definition nearest_integer : Prop := forall y, Rabs (y - IZR (round y)) <= / 2.

Lemma deviation_sum T : deviation T = sum T ideal - sum T rounded.
Proof. induction T; cbn; [ring|]. change (IZR (round (ideal T + deviation T))) with (rounded T). lra. Qed.

(* Claim oef/rounding-deviation: every deviation is at most 1/2, so the mean of the GPUs approaches the share. *)
Theorem rounding_deviation : nearest_integer -> (forall t, Rabs (deviation t) <= / 2) /\
  (forall T, (0 < T)%nat -> Rabs (sum T rounded / INR T - sum T ideal / INR T) <= / (2 * INR T)) /\
  forall share, (forall t, ideal t = share) -> Un_cv (fun T => sum T rounded / INR T) share.
Proof.
  intros Near. assert (D : forall t, Rabs (deviation t) <= / 2).
  { intros [|t]; cbn; [rewrite Rabs_R0; lra|].
    replace (deviation t + (ideal t - IZR (round (ideal t + deviation t))))
      with (ideal t + deviation t - IZR (round (ideal t + deviation t))) by ring. apply Near. }
  assert (M : forall T, (0 < T)%nat -> Rabs (sum T rounded / INR T - sum T ideal / INR T) <= / (2 * INR T)).
  { intros T P. apply (lt_INR 0) in P. change (INR 0) with 0 in P.
    replace (sum T rounded / INR T - sum T ideal / INR T) with (- (deviation T * / INR T))
      by (rewrite deviation_sum; field; lra).
    rewrite Rabs_Ropp, Rabs_mult, (Rabs_pos_eq (/ INR T)), Rinv_mult by (apply Rlt_le, Rinv_0_lt_compat; auto).
    apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; auto|apply D]. }
  repeat split; auto. intros share Const eps E. destruct (archimed_cor1 eps E) as (N & Ne & Np).
  exists N. intros T L. unfold R_dist. apply Rle_lt_trans with (/ (2 * INR T)).
  - replace share with (sum T ideal / INR T); [apply M; lia|].
    rewrite (sum_ext T ideal (fun _ => share)), sum_const by auto. field. apply not_0_INR. lia.
  - apply Rle_lt_trans with (/ INR N); auto. apply (lt_INR 0) in Np. apply le_INR in L. cbn in Np.
    apply Rinv_le_contravar; lra.
Qed.
End Deviation.
Example rounding_deviation_met : can_be_met rounding_deviation.
Proof.
  intros H. apply (H (fun y => Int_part (y + / 2)) (fun _ => 1 / 3)). intros y.
  destruct (base_Int_part (y + / 2)). apply Rabs_le. lra.
Qed.

Section Gangs.
Variables n P : nat.
Variable point : nat -> nat -> R.
(* In every round the shares are a mean of the P usable points. *)
Variable part : nat -> nat -> R.
Variable chosen : nat -> nat.

Definition share (t i : nat) : R := sum P (fun p => part t p * point p i).
Definition a_mean : Prop := forall t, (forall p, (p < P)%nat -> 0 <= part t p) /\ sum P (part t) = 1.
Definition distance2 (u v : nat -> R) : R := sum n (fun i => (u i - v i) * (u i - v i)).
Fixpoint owed (t i : nat) : R := match t with O => 0 | S t => owed t i + share t i - point (chosen t) i end.
(* The usable point nearest to ideal + dev *)
Definition nearest_point : Prop := forall t, (chosen t < P)%nat /\ forall p, (p < P)%nat ->
  distance2 (fun i => owed t i + share t i) (point (chosen t)) <= distance2 (fun i => owed t i + share t i) (point p).

Lemma mean_distance t u : sum P (part t) = 1 -> sum P (fun p => part t p * distance2 u (point p)) =
  distance2 u (share t) + sum P (fun p => part t p * distance2 (share t) (point p)).
Proof.
  intros One. unfold distance2.
  rewrite (sum_ext P _ (fun p => sum n (fun i => part t p * ((u i - point p i) * (u i - point p i)))))
    by (intros; now rewrite sum_scal).
  rewrite (sum_ext P (fun p => part t p * sum n _)
    (fun p => sum n (fun i => part t p * ((share t i - point p i) * (share t i - point p i)))))
    by (intros; now rewrite sum_scal).
  rewrite !(sum_swap P n), <- sum_plus. apply sum_ext; intros i _. set (s := share t i).
  rewrite (sum_ext P _ (fun p => (u i - s) * (u i - s) * part t p +
    2 * (u i - s) * (s * part t p - part t p * point p i) +
    part t p * ((s - point p i) * (s - point p i)))) by (intros; ring).
  rewrite sum_plus, sum_plus, !sum_scal, sum_minus, sum_scal, One. fold (share t i). unfold s. ring.
Qed.

(* Claim oef/rounding-gangs: choosing the nearest usable point keeps |dev|^2 <= T D^2 after T rounds, where D is at
   least the distance of every two usable points. *)
Theorem rounding_gangs D : a_mean -> nearest_point ->
  (forall p q, (p < P)%nat -> (q < P)%nat -> distance2 (point p) (point q) <= D * D) ->
  forall T, distance2 (owed T) (fun _ => 0) <= INR T * (D * D).
Proof.
  intros Mean Near Far. assert (Z : forall t, sum P (fun p => part t p * distance2 (share t) (point p)) <= D * D).
  { intros t. destruct (Mean t) as (Pos & One). destruct (Near t) as (C & _).
    apply Rle_trans with (sum P (fun p => part t p * distance2 (point (chosen t)) (point p))).
    - rewrite (mean_distance t (point (chosen t)) One).
      assert (0 <= distance2 (point (chosen t)) (share t)) by (apply sum_nonneg; intros; apply Rle_0_sqr). lra.
    - rewrite <- (Rmult_1_r (D * D)), <- One, <- sum_scal. apply sum_le. intros p Hp.
      specialize (Far (chosen t) p C Hp). specialize (Pos p Hp). nra. }
  induction T as [|T IH].
  - unfold distance2. cbn. rewrite sum_zero; [lra|intros; ring].
  - destruct (Mean T) as (Pos & One). destruct (Near T) as (C & N). rewrite S_INR.
    set (v := fun i => owed T i + share T i) in *.
    replace (distance2 (owed (S T)) (fun _ => 0)) with (distance2 v (point (chosen T)))
      by (apply sum_ext; intros; unfold v; cbn; ring).
    apply Rle_trans with (sum P (fun p => part T p * distance2 v (point p))).
    + rewrite <- (Rmult_1_l (distance2 v _)), <- One at 1. rewrite Rmult_comm, <- sum_scal.
      apply sum_le. intros p Hp. specialize (N p Hp). specialize (Pos p Hp). nra.
    + rewrite (mean_distance T v One). replace (distance2 v (share T)) with (distance2 (owed T) (fun _ => 0));
        [specialize (Z T); lra|]. apply sum_ext; intros; unfold v; ring.
Qed.
End Gangs.

(* The rule can be followed. *)
Lemma nearest_of n (point : nat -> nat -> R) P v : {c | (c < S P)%nat /\ forall p, (p < S P)%nat ->
  distance2 n v (point c) <= distance2 n v (point p)}.
Proof.
  induction P as [|P (c & C & N)].
  - exists 0%nat. split; [lia|]. intros p H. replace p with 0%nat by lia. apply Rle_refl.
  - destruct (Rle_dec (distance2 n v (point c)) (distance2 n v (point (S P)))) as [L|L].
    + exists c. split; [lia|]. intros p H. destruct (Nat.eq_dec p (S P)) as [->|D]; [exact L|apply N; lia].
    + exists (S P). split; [lia|]. intros p H. destruct (Nat.eq_dec p (S P)) as [->|D]; [apply Rle_refl|].
      apply Rle_trans with (distance2 n v (point c)); [lra|apply N; lia].
Qed.

Lemma nearest_point_exists n P point part : exists chosen, nearest_point n (S P) point part chosen.
Proof.
  set (step := fun t (dev : nat -> R) =>
    proj1_sig (nearest_of n point P (fun i => dev i + share (S P) point part t i))).
  set (state := fix state t := match t with O => fun _ => 0 | S t => fun i =>
    state t i + share (S P) point part t i - point (step t (state t)) i end).
  exists (fun t => step t (state t)). intros t.
  assert (E : owed (S P) point part (fun t => step t (state t)) t = state t).
  { induction t as [|t IH]; [reflexivity|]. apply functional_extensionality. intros i. cbn. now rewrite IH. }
  rewrite E. unfold step. apply proj2_sig.
Qed.

(* Two tenants with gangs of two GPUs: one or the other has both. *)
Example rounding_gangs_met : can_be_met rounding_gangs.
Proof.
  intros H. set (point := fun p i => 2 * ind p i). set (part := fun _ _ : nat => 1 / 2).
  destruct (nearest_point_exists 2 1 point part) as (chosen & N).
  refine (H 2%nat 2%nat point part chosen 3 _ N _ 0%nat).
  - intros t. split; [intros; unfold part; lra|unfold part; cbn; lra].
  - intros p q Hp Hq. destruct p as [|[|p]], q as [|[|q]]; try lia; unfold distance2, point, ind; cbn; lra.
Qed.

(* -- Earliest deadlines ------------------------------------------------------------------------------------------- *)

Lemma below_floor z r : (z <= Int_part r)%Z <-> IZR z <= r.
Proof.
  destruct (base_Int_part r) as (A & B). split; intros H.
  - apply IZR_le in H. lra.
  - apply Z.lt_succ_r, lt_IZR. rewrite succ_IZR. lra.
Qed.

Section Deadlines.
Variables n m : nat.
(* Constant shares x_i of m GPUs *)
Variable x : nat -> R.

(* GPU number s of tenant i may be assigned from round floor((s - 1) / x_i) + 1 to round ceil(s / x_i). *)
Definition release (i s : nat) : Z := (Int_part (INR (s - 1) / x i) + 1)%Z.
Definition deadline (i s : nat) : Z := ceiling (INR s / x i).

(* Assignment g is that of GPU g mod m in round g / m + 1: to a tenant, or to none. *)
Variable assigned : nat -> option nat.
Definition round_of (g : nat) : nat := S (g / m).
(* The GPUs assigned to tenant i before assignment g *)
Fixpoint received (g i : nat) : nat :=
  match g with
  | O => O
  | S g => received g i + match assigned g with Some h => if Nat.eqb i h then 1 else 0 | None => 0 end
  end.

Definition waiting (count : nat -> nat) (t i : nat) : Prop :=
  (i < n)%nat /\ 0 < x i /\ (release i (S (count i)) <= Z.of_nat t)%Z.
(* The next GPU goes to a waiting tenant whose next GPU has the earliest deadline. *)
Definition by_deadline (count : nat -> nat) (t : nat) (to : option nat) : Prop :=
  match to with
  | Some i => waiting count t i /\
      forall h, waiting count t h -> (deadline i (S (count i)) <= deadline h (S (count h)))%Z
  | None => forall h, ~ waiting count t h
  end.
Definition earliest_deadline_first : Prop := forall g, by_deadline (received g) (round_of g) (assigned g).

Hypothesis gpus : (0 < m)%nat.
Hypothesis shares : forall i, (i < n)%nat -> 0 <= x i.
Hypothesis all_shared : sum n x = INR m.
Hypothesis rule : earliest_deadline_first.

Lemma waiting_spec count t i : (i < n)%nat -> (waiting count t i <-> INR (count i) < INR t * x i).
Proof.
  intros I. unfold waiting, release. replace (S (count i) - 1)%nat with (count i) by lia. specialize (shares i I).
  pose proof (pos_INR (count i)). split.
  - intros (_ & X & L). apply Rnot_le_lt. intros G.
    assert (Z.of_nat t <= Int_part (INR (count i) / x i))%Z; [|lia]. apply below_floor. rewrite <- INR_IZR_INZ.
    apply Rmult_le_reg_r with (x i); auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - intros L. assert (X : 0 < x i) by (pose proof (pos_INR t); nra). repeat split; auto.
    apply Z.le_succ_l, Z.nle_gt. intros G. apply below_floor in G. rewrite <- INR_IZR_INZ in G.
    apply Rmult_le_compat_r with (r := x i) in G; [|lra].
    unfold Rdiv in G. rewrite Rmult_assoc, Rinv_l in G by lra. lra.
Qed.

Lemma deadline_spec i s d : 0 < x i -> ((deadline i s <= Z.of_nat d)%Z <-> INR s <= INR d * x i).
Proof.
  intros X. unfold deadline, ceiling. transitivity (- Z.of_nat d <= Int_part (- (INR s / x i)))%Z; [lia|].
  rewrite below_floor, opp_IZR, <- INR_IZR_INZ. split; intros H.
  - apply Ropp_le_cancel in H. apply Rmult_le_compat_r with (r := x i) in H; [|lra].
    unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H by lra. lra.
  - apply Ropp_le_contravar, Rmult_le_reg_r with (x i); auto.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma received_next g i : assigned g = Some i -> received (S g) i = S (received g i).
Proof. intros A. cbn. rewrite A, Nat.eqb_refl. lia. Qed.

Lemma received_other g i : assigned g <> Some i -> received (S g) i = received g i.
Proof.
  intros A. cbn. destruct (assigned g) as [h|]; [|lia]. destruct (Nat.eqb_spec i h); [congruence|lia].
Qed.

Lemma received_step g i : (received g i <= received (S g) i)%nat.
Proof. cbn. lia. Qed.

Lemma received_mono g h i : (g <= h)%nat -> (received g i <= received h i)%nat.
Proof. intros H. induction H; auto. pose proof (received_step m0 i). lia. Qed.

Lemma round_end g : (g < round_of g * m)%nat.
Proof. unfold round_of. pose proof (Nat.mul_succ_div_gt g m). nia. Qed.

Lemma round_within g T : (g < T * m)%nat -> (round_of g <= T)%nat.
Proof. intros H. unfold round_of. apply Nat.div_lt_upper_bound; lia. Qed.

Lemma sum_received g : (forall h, (h < g)%nat -> assigned h <> None) -> sum n (fun i => INR (received g i)) = INR g.
Proof.
  induction g as [|g IH]; intros H; [apply sum_zero; auto|].
  destruct (assigned g) as [h|] eqn:A; [|destruct (H g); auto].
  pose proof (rule g) as Q. rewrite A in Q. destruct Q as ((Hn & _) & _).
  rewrite S_INR, <- IH, <- (sum_one n h Hn), <- sum_plus by (intros; apply H; lia).
  apply sum_ext; intros i I. unfold ind. destruct (Nat.eqb_spec i h) as [->|D].
  - rewrite received_next, S_INR by auto. ring.
  - rewrite received_other by congruence. ring.
Qed.

Lemma none_idle g : assigned g <> None.
Proof.
  induction g as [g IH] using (well_founded_induction Nat.lt_wf_0). intros A.
  destruct (sum_pos_term n (fun i => INR (round_of g) * x i - INR (received g i))) as (i & I & P).
  - rewrite sum_minus, sum_scal, all_shared, sum_received, <- mult_INR by auto.
    apply Rlt_Rminus, lt_INR, round_end.
  - pose proof (rule g) as Q. rewrite A in Q. apply (Q i), waiting_spec; auto. lra.
Qed.

Lemma not_early T g i : (i < n)%nat -> (g <= T * m)%nat -> INR (received g i) < INR T * x i + 1.
Proof.
  intros I. induction g as [|g IH]; intros G.
  - cbn. pose proof (pos_INR T). specialize (shares i I). nra.
  - destruct (assigned g) as [h|] eqn:A; [|now destruct (none_idle g)].
    destruct (Nat.eq_dec h i) as [->|D].
    + rewrite received_next, S_INR by auto. pose proof (rule g) as Q. rewrite A in Q. destruct Q as (Q & _).
      apply waiting_spec in Q; auto. assert (Le : INR (round_of g) <= INR T) by (apply le_INR, round_within; lia).
      specialize (shares i I). nra.
    + rewrite received_other by congruence. apply IH. lia.
Qed.

(* Suppose tenant j misses a deadline at the end of round T. After assignment G only GPUs with a deadline of at most T
   were assigned, and none of these could have been assigned up to round t. *)
Lemma busy_period T : exists G t, (G <= T * m)%nat /\ (G <= t * m)%nat /\ (t <= T)%nat /\
  (forall g i, (G <= g < T * m)%nat -> assigned g = Some i -> INR (S (received g i)) <= INR T * x i) /\
  forall i, (i < n)%nat -> INR (S (received G i)) <= INR T * x i -> INR t * x i <= INR (received G i).
Proof.
  set (late := fun g => exists i, assigned g = Some i /\ INR T * x i < INR (S (received g i))).
  assert (Fine : forall g i, ~ late g -> assigned g = Some i -> INR (S (received g i)) <= INR T * x i).
  { intros g i L A. apply Rnot_lt_le. intros B. apply L. now exists i. }
  destruct (classic (exists g, (g < T * m)%nat /\ late g)) as [Some|None].
  - destruct (last_index late (T * m) Some) as (g & G & (i & A & L) & Last). exists (S g), (round_of g).
    split; [lia|]. split; [apply round_end|]. split; [now apply round_within|]. split.
    + intros h i' H. apply Fine, Last. lia.
    + intros h Hn D. pose proof (rule g) as Q. rewrite A in Q. destruct Q as ((_ & Xi & _) & Q).
      pose proof (received_step g h) as Step. apply le_INR in Step. rewrite S_INR in D.
      apply Rnot_lt_le. intros W.
      assert (Wait : waiting (received g) (round_of g) h) by (apply waiting_spec; lra || auto).
      apply Q in Wait as Le. destruct Wait as (_ & Xh & _). apply (Rlt_not_le _ _ L), deadline_spec; auto.
      apply Z.le_trans with (deadline h (S (received g h))); auto. apply deadline_spec; auto. rewrite S_INR. lra.
  - exists 0%nat, 0%nat. repeat split; try lia.
    + intros g i H. apply Fine. intros L. apply None. exists g; split; [lia|exact L].
    + intros i I _. cbn. lra.
Qed.

Lemma not_late T j : (j < n)%nat -> INR T * x j < INR (S (received (T * m) j)).
Proof.
  intros J. apply Rnot_le_lt. intros Missed.
  destruct (busy_period T) as (G & t & GT & Gt & Tt & Early & Later). apply le_INR in Tt.
  assert (Run : forall i g, (G <= g)%nat -> (g <= T * m)%nat ->
    received g i = received G i \/ INR (received g i) <= INR T * x i).
  { intros i g H. induction H as [|g H IH]; intros L; [now left|].
    destruct (classic (assigned g = Some i)) as [A|A].
    - right. rewrite received_next by auto. now apply Early.
    - rewrite received_other by auto. apply IH. lia. }
  assert (Each : forall i, (i < n)%nat -> INR (received (T * m) i) - INR (received G i) <= (INR T - INR t) * x i).
  { intros i I. specialize (shares i I). destruct (Run i (T * m)%nat GT (le_n _)) as [->|L]; [nra|].
    destruct (Nat.eq_dec (received (T * m) i) (received G i)) as [->|D]; [nra|].
    pose proof (received_mono G (T * m) i GT).
    assert (INR (S (received G i)) <= INR (received (T * m) i)) by (apply le_INR; lia).
    specialize (Later i I ltac:(lra)). lra. }
  assert (Less : sum n (fun i => INR (received (T * m) i) - INR (received G i)) <
    sum n (fun i => (INR T - INR t) * x i)).
  { apply sum_lt with j; auto. pose proof (received_mono G (T * m) j GT) as Mono. apply le_INR in Mono.
    specialize (Later j J). rewrite !S_INR in *. specialize (Later ltac:(lra)). lra. }
  rewrite sum_minus, !sum_received, sum_scal, all_shared, mult_INR in Less by (intros; apply none_idle).
  apply le_INR in Gt. rewrite mult_INR in Gt. lra.
Qed.

End Deadlines.

(* The rule can be followed. *)
Lemma waiting_dec n x count t i : {waiting n x count t i} + {~ waiting n x count t i}.
Proof.
  unfold waiting. destruct (lt_dec i n); [|right; tauto]. destruct (Rlt_dec 0 (x i)); [|right; tauto].
  destruct (Z_le_dec (release x i (S (count i))) (Z.of_nat t)); [left|right]; tauto.
Qed.

Lemma waiting_succ n x count t h :
  waiting (S n) x count t h <-> waiting n x count t h \/ h = n /\ waiting (S n) x count t n.
Proof.
  unfold waiting. split.
  - intros (H & W). destruct (Nat.eq_dec h n) as [->|D]; [right|left]; repeat split; auto; try apply W. lia.
  - intros [(H & W)|(-> & W)]; auto.
Qed.

Lemma choose n x count t : {to | by_deadline n x count t to}.
Proof.
  induction n as [|n (to & Q)]; [exists None; intros h (H & _); lia|].
  destruct (waiting_dec (S n) x count t n) as [W|W].
  - destruct to as [i|]; [destruct (Z_le_dec (deadline x i (S (count i))) (deadline x n (S (count n)))) as [L|L]|].
    + exists (Some i). destruct Q as (I & Q). split; [apply waiting_succ; now left|].
      intros h H. apply waiting_succ in H as [H|(-> & _)]; auto.
    + exists (Some n). destruct Q as (I & Q). split; auto.
      intros h H. apply waiting_succ in H as [H|(-> & _)]; [specialize (Q h H)|]; lia.
    + exists (Some n). split; auto. intros h H. apply waiting_succ in H as [H|(-> & _)]; [now destruct (Q h)|lia].
  - exists to. destruct to as [i|].
    + destruct Q as (I & Q). split; [apply waiting_succ; now left|].
      intros h H. apply waiting_succ in H as [H|(-> & H)]; [auto|contradiction].
    + intros h H. apply waiting_succ in H as [H|(-> & H)]; [now apply (Q h)|contradiction].
Qed.

Lemma earliest_deadline_exists n m x : exists assigned, earliest_deadline_first n m x assigned.
Proof.
  set (step := fun g (count : nat -> nat) => proj1_sig (choose n x count (round_of m g))).
  set (state := fix state g := match g with O => fun _ => O | S g => fun i =>
    (state g i + match step g (state g) with Some h => if Nat.eqb i h then 1 else 0 | None => 0 end)%nat end).
  exists (fun g => step g (state g)). intros g.
  assert (E : received (fun g => step g (state g)) g = state g).
  { induction g as [|g IH]; [reflexivity|]. apply functional_extensionality. intros i. cbn. now rewrite IH. }
  rewrite E. unfold step. apply proj2_sig.
Qed.

(* Claim oef/rounding-deadlines: assigning each GPU by the earliest deadline uses all GPUs, each for one tenant, and
   every deviation is below 1, so the mean of T rounds is within 1/T of the share. *)
Theorem rounding_deadlines n m x assigned : (0 < m)%nat -> (forall i, (i < n)%nat -> 0 <= x i) -> sum n x = INR m ->
  earliest_deadline_first n m x assigned ->
  (forall g, exists i, (i < n)%nat /\ assigned g = Some i) /\
  forall T i, (i < n)%nat -> Rabs (INR T * x i - INR (received assigned (T * m) i)) < 1 /\
    ((0 < T)%nat -> Rabs (x i - INR (received assigned (T * m) i) / INR T) < / INR T).
Proof.
  intros M X S Rule. split.
  - intros g. pose proof (Rule g) as Q.
    destruct (assigned g) as [i|] eqn:A; [|now destruct (none_idle n m x assigned M X S Rule g)].
    exists i. split; auto. apply Q.
  - intros T i I. pose proof (not_early n m x assigned M X S Rule T (T * m) i I (le_n _)) as E.
    pose proof (not_late n m x assigned M X S Rule T i I) as L. rewrite S_INR in L.
    assert (D : Rabs (INR T * x i - INR (received assigned (T * m) i)) < 1) by (apply Rabs_def1; lra).
    split; auto. intros P. apply (lt_INR 0) in P. change (INR 0) with 0 in P.
    replace (x i - INR (received assigned (T * m) i) / INR T)
      with ((INR T * x i - INR (received assigned (T * m) i)) * / INR T) by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ INR T)) by (apply Rlt_le, Rinv_0_lt_compat; auto).
    rewrite <- (Rmult_1_l (/ INR T)) at 2. apply Rmult_lt_compat_r; auto. now apply Rinv_0_lt_compat.
Qed.
Example rounding_deadlines_met : can_be_met rounding_deadlines.
Proof.
  intros H. set (x := three (2 / 3) (1 / 3) 1). destruct (earliest_deadline_exists 3 2 x) as (assigned & Rule).
  apply (H 3%nat 2%nat x assigned); auto; [|unfold x; cbn; lra].
  apply below_three. unfold x; cbn. lra.
Qed.
