(* OEF: n users (tenants) share m_j GPUs of each of k types. *)
From Coq Require Import Reals Lra Lia List PeanoNat Classical.
From Hetopt Require Import Sums Linear Hypotheses.
Import ListNotations.
Open Scope R_scope.

(* A table has an entry for each user and type: speedups w, or shares x. *)
Definition table := nat -> nat -> R.

(* f i j for all i < a, j < b; and f i for all i < a *)
Definition by_pairs {A} (a b : nat) (f : nat -> nat -> A) : list A :=
  map (fun q => f (fst q) (snd q)) (list_prod (seq 0 a) (seq 0 b)).
Definition by_users {A} (a : nat) (f : nat -> A) : list A := map f (seq 0 a).

Lemma in_by_pairs {A} a b (f : nat -> nat -> A) i j : (i < a)%nat -> (j < b)%nat -> In (f i j) (by_pairs a b f).
Proof. intros I J. apply in_map_iff. exists (i, j); split; auto. apply in_prod; apply in_seq; lia. Qed.

Lemma by_pairs_spec {A} (P : A -> Prop) a b f :
  Forall P (by_pairs a b f) <-> forall i j, (i < a)%nat -> (j < b)%nat -> P (f i j).
Proof.
  rewrite Forall_forall. split; intros H.
  - intros i j I J. now apply H, in_by_pairs.
  - intros y Y. apply in_map_iff in Y as ((i, j) & <- & Y). apply in_prod_iff in Y as (I & J).
    apply in_seq in I, J. cbn. apply H; lia.
Qed.

Lemma by_users_spec {A} (P : A -> Prop) a f : Forall P (by_users a f) <-> forall i, (i < a)%nat -> P (f i).
Proof.
  unfold by_users. rewrite Forall_map, Forall_forall.
  split; intros H i Hi; apply H; [apply in_seq|apply in_seq in Hi]; lia.
Qed.

(* A small number above 0. *)
Lemma small u v c : 0 < u -> 0 < v -> 0 < c -> exists e, 0 < e /\ e <= u /\ c * e <= v.
Proof.
  intros U V C. exists (Rmin u (v / c)). split; [apply Rmin_glb_lt; [auto|now apply Rdiv_lt_0_compat]|].
  split; [apply Rmin_l|]. pose proof (Rmin_r u (v / c)). apply Rmult_le_compat_l with (r := c) in H; [|lra].
  replace (c * (v / c)) with v in H by (field; lra). exact H.
Qed.

Section Cluster.
Variables n k : nat.
Variable m : nat -> R.

(* w_l . x_l: the throughput of user l. *)
Definition rate (w x : table) (l : nat) : R := dot k (w l) (x l).
Definition total (w x : table) : R := sum n (rate w x).
Definition nonneg (x : table) : Prop := forall l j, (l < n)%nat -> (j < k)%nat -> 0 <= x l j.
Definition positive (x : table) : Prop := forall l j, (l < n)%nat -> (j < k)%nat -> 0 < x l j.
Definition used (x : table) (j : nat) : R := sum n (fun l => x l j).
(* eqs. (9a), (9b): no more GPUs of a type than there are. *)
Definition feasible (x : table) : Prop := nonneg x /\ forall j, (j < k)%nat -> used x j <= m j.

Definition pareto_efficient (w x : table) : Prop := forall y, feasible y ->
  (forall l, (l < n)%nat -> rate w x l <= rate w y l) -> forall l, (l < n)%nat -> rate w y l = rate w x l.

(* Users have weights pi_l > 0; equal weights are (fun _ => 1). *)
Definition weights (pi : nat -> R) : Prop := forall l, (l < n)%nat -> 0 < pi l.
Definition equal : nat -> R := fun _ => 1.

(* eq. (10c), corrected, with weights: pi_i w_l.x_l >= pi_l w_l.x_i. *)
Definition envy_free (pi : nat -> R) (w x : table) : Prop := forall l i, (l < n)%nat -> (i < n)%nat ->
  pi l * dot k (w l) (x i) <= pi i * rate w x l.
(* w_l.x_l >= w_l.m pi_l / sum_i pi_i *)
Definition sharing_incentive (pi : nat -> R) (w x : table) : Prop := forall l, (l < n)%nat ->
  dot k (w l) m * (pi l / sum n pi) <= rate w x l.

(* eq. (10): cooperative OEF has the largest total of all envy-free allocations. *)
Definition cooperative (pi : nat -> R) (w x : table) : Prop := feasible x /\ envy_free pi w x /\
  forall y, feasible y -> envy_free pi w y -> total w y <= total w x.

(* eq. (9): non-cooperative OEF gives every user the same t = w_l.x_l / pi_l, and the largest such t. *)
Definition level (pi : nat -> R) (w x : table) (t : R) : Prop := feasible x /\
  forall l, (l < n)%nat -> rate w x l = t * pi l.
Definition noncooperative (pi : nat -> R) (w x : table) (t : R) : Prop := level pi w x t /\
  forall y s, level pi w y s -> s <= t.

(* Strictly ratio-ordered users: w_l^j w_h^j' > w_l^j' w_h^j for users l < h and types j < j'. *)
Definition ratio_ordered (w : table) : Prop := forall l h i j, (l < h < n)%nat -> (i < j < k)%nat ->
  w l j * w h i < w l i * w h j.

(* Section 2.3: speedups relative to the first type, which is the slowest; later types are faster. *)
Definition speedups (w : table) : Prop := forall l, (l < n)%nat -> w l 0%nat = 1 /\
  forall i j, (i < j < k)%nat -> w l i < w l j.

(* eq. (4): the largest total of all allocations. *)
Definition largest_total (w x : table) : Prop := feasible x /\ forall y, feasible y -> total w y <= total w x.
(* The largest total of all allocations with the sharing incentive, the measure of section 2.4. *)
Definition largest_sharing_total (pi : nat -> R) (w x : table) : Prop := feasible x /\ sharing_incentive pi w x /\
  forall y, feasible y -> sharing_incentive pi w y -> total w y <= total w x.

Definition same_shares (x y : table) : Prop := forall l j, (l < n)%nat -> (j < k)%nat -> x l j = y l j.

(* -- Sums over users -- *)

Lemma total_of_same w x y : same_shares x y -> total w x = total w y.
Proof. intros H. apply sum_ext; intros l L. apply sum_ext; intros j J. now rewrite H. Qed.

Lemma weights_sum pi l : weights pi -> (l < n)%nat -> 0 < sum n pi.
Proof. intros Pi Hl. apply Rlt_le_trans with (pi l); auto. apply sum_term; auto. intros i Hi. now left; apply Pi. Qed.

Lemma equal_weights : weights equal.
Proof. intros l _. unfold equal. lra. Qed.

Lemma sum_equal : sum n equal = INR n.
Proof. unfold equal. rewrite sum_const. ring. Qed.

Lemma dot_used v x : sum n (fun i => dot k v (x i)) = dot k v (used x).
Proof. symmetry. apply dot_sum. Qed.

Lemma rate_nonneg w x l : nonneg w -> nonneg x -> (l < n)%nat -> 0 <= rate w x l.
Proof. intros W X Hl. apply dot_nonneg; auto. Qed.

Lemma rate_at_most w x l : nonneg w -> feasible x -> (l < n)%nat -> rate w x l <= dot k (w l) m.
Proof.
  intros W (X & Cap) Hl. apply dot_le_r; [auto|]. intros j Hj. apply Rle_trans with (used x j); [|auto].
  apply (sum_term n (fun i => x i j)); auto.
Qed.

Lemma positive_nonneg w : positive w -> nonneg w.
Proof. intros W l j Hl Hj. now left; apply W. Qed.

Lemma nothing : (forall j, (j < k)%nat -> 0 <= m j) -> feasible (fun _ _ => 0).
Proof. intros M. split; [intros l j _ _; lra|]. intros j Hj. unfold used. rewrite sum_zero; auto. Qed.

Lemma rate_of_nothing w l : rate w (fun _ _ => 0) l = 0.
Proof. apply sum_zero; intros; ring. Qed.

(* Part c_l of the cluster for user l. *)
Definition parts (c : nat -> R) : table := fun l j => c l * m j.

Lemma parts_feasible c : (forall j, (j < k)%nat -> 0 <= m j) -> (forall l, (l < n)%nat -> 0 <= c l) -> sum n c <= 1 ->
  feasible (parts c).
Proof.
  intros M C One. split; [intros l j Hl Hj; apply Rmult_le_pos; auto|].
  intros j Hj. unfold used, parts. rewrite sum_scal_r. specialize (M j Hj). nra.
Qed.

Lemma dot_parts v c l : dot k v (parts c l) = c l * dot k v m.
Proof. apply dot_scal. Qed.

(* -- Linear programs over shares x and a level t -- *)

(* sum_{l,j} c_l^j x_l^j + a t <= b *)
Record limit := Limit { on_shares : table; on_level : R; at_most : R }.
Definition keeps (x : table) (t : R) (a : limit) : Prop := total (on_shares a) x + on_level a * t <= at_most a.

(* Tables as vectors of length n k; the level comes last. *)
Definition vector (x : table) (i : nat) : R := x (i / k)%nat (i mod k)%nat.
Definition matrix (v : nat -> R) : table := fun l j => v (l * k + j)%nat.
Let to_row (a : limit) : row := Row (extended (n * k) (vector (on_shares a)) (on_level a)) (at_most a).

Lemma vector_at x l j : (j < k)%nat -> vector x (l * k + j) = x l j.
Proof.
  intros J. unfold vector. rewrite Nat.div_add_l, Nat.div_small by lia.
  rewrite (Nat.add_comm (l * k)), Nat.mod_add, Nat.mod_small by lia. now rewrite Nat.add_0_r.
Qed.

Lemma dot_matrix c a v : dot (S (n * k)) (extended (n * k) (vector c) a) v = total c (matrix v) + a * v (n * k)%nat.
Proof.
  unfold dot; cbn [sum]. f_equal; [|unfold extended; now rewrite Nat.eqb_refl].
  transitivity (dot (n * k) (vector c) v).
  - apply sum_ext; intros i Hi. unfold extended. destruct (Nat.eqb_spec i (n * k)); [lia|reflexivity].
  - unfold dot. rewrite sum_blocks. apply sum_ext; intros l _. apply sum_ext; intros j Hj. now rewrite vector_at.
Qed.

Lemma dot_vector c a x t :
  dot (S (n * k)) (extended (n * k) (vector c) a) (extended (n * k) (vector x) t) = total c x + a * t.
Proof.
  rewrite dot_matrix. unfold extended at 2. rewrite Nat.eqb_refl. f_equal.
  apply sum_ext; intros l Hl. apply sum_ext; intros j Hj. f_equal. unfold matrix, extended.
  destruct (Nat.eqb_spec (l * k + j) (n * k)) as [E|]; [exfalso; nia|now apply vector_at].
Qed.

(* A bounded feasible program has an optimum. *)
Lemma program_optimum p c a x0 t0 u : Forall (keeps x0 t0) p ->
  (forall x t, Forall (keeps x t) p -> total c x + a * t <= u) ->
  exists x t, Forall (keeps x t) p /\ forall y s, Forall (keeps y s) p -> total c y + a * s <= total c x + a * t.
Proof.
  intros F0 U.
  assert (Rows : forall v,
    all_hold (S (n * k)) (map to_row p) v <-> Forall (keeps (matrix v) (v (n * k)%nat)) p).
  { intros v. unfold all_hold. rewrite Forall_map.
    split; apply Forall_impl; intros b; unfold holds, keeps, to_row; cbn [coefficients bound];
      now rewrite dot_matrix. }
  assert (Back : forall x t, Forall (keeps x t) p ->
    all_hold (S (n * k)) (map to_row p) (extended (n * k) (vector x) t)).
  { intros x t. unfold all_hold. rewrite Forall_map.
    apply Forall_impl; intros b; unfold holds, keeps, to_row; cbn [coefficients bound]; now rewrite dot_vector. }
  destruct (optimum_exists (S (n * k)) (map to_row p) (extended (n * k) (vector c) a)
    (extended (n * k) (vector x0) t0) u) as (v & V & O); [auto| |].
  - intros v V. rewrite dot_matrix. now apply U, Rows.
  - exists (matrix v), (v (n * k)%nat). split; [now apply Rows|].
    intros y s Y. rewrite <- dot_vector, <- (dot_matrix c a v). auto.
Qed.

(* Limits of one user, of single shares and of types. *)
Definition of_user (l : nat) (v : nat -> R) : table := fun i j => if Nat.eqb i l then v j else 0.

Lemma total_of_user l v x : (l < n)%nat -> total (of_user l v) x = dot k v (x l).
Proof.
  intros Hl. rewrite <- (sum_at n l (dot k v (x l)) Hl). apply sum_ext; intros i _. unfold rate, of_user.
  destruct (Nat.eqb_spec i l) as [->|]; [reflexivity|]. apply sum_zero; intros; ring.
Qed.

Lemma total_plus c d x : total (fun l j => c l j + d l j) x = total c x + total d x.
Proof.
  unfold total. rewrite <- sum_plus. apply sum_ext; intros l _. unfold rate, dot.
  rewrite <- sum_plus. apply sum_ext; intros; ring.
Qed.

(* b + a t <= v . x_l *)
Definition at_least (l : nat) (v : nat -> R) (a b : R) : limit := Limit (of_user l (fun j => -1 * v j)) a (- b).

Lemma at_least_spec l v a b x t : (l < n)%nat -> keeps x t (at_least l v a b) <-> b + a * t <= dot k v (x l).
Proof.
  intros Hl. unfold keeps, at_least. cbn [on_shares on_level at_most]. rewrite total_of_user, dot_scal_l by auto.
  split; intros; lra.
Qed.

(* eq. (10c), corrected *)
Definition envy_limit (pi : nat -> R) (w : table) (l i : nat) : limit :=
  Limit (fun h j => of_user i (fun j => pi l * w l j) h j + of_user l (fun j => - pi i * w l j) h j) 0 0.

Lemma envy_limit_spec pi w x t l i : (l < n)%nat -> (i < n)%nat ->
  keeps x t (envy_limit pi w l i) <-> pi l * dot k (w l) (x i) <= pi i * rate w x l.
Proof.
  intros Hl Hi. unfold keeps, envy_limit. cbn [on_shares on_level at_most].
  rewrite total_plus, !total_of_user, !dot_scal_l by auto. unfold rate. split; intros; lra.
Qed.

(* eqs. (9a), (9b) *)
Definition capacity : list limit :=
  by_pairs n k (fun l j => at_least l (ind j) 0 0) ++ by_users k (fun j => Limit (fun _ => ind j) 0 (m j)).

Lemma capacity_spec x t : Forall (keeps x t) capacity <-> feasible x.
Proof.
  unfold capacity, feasible, nonneg. rewrite Forall_app, by_pairs_spec, by_users_spec.
  assert (E : forall j, (j < k)%nat -> (keeps x t (Limit (fun _ => ind j) 0 (m j)) <-> used x j <= m j)).
  { intros j Hj. unfold keeps. cbn [on_shares on_level at_most].
    replace (total (fun _ => ind j) x) with (used x j); [split; intros; lra|].
    apply sum_ext; intros l _. symmetry. now apply ind_dot. }
  assert (P : forall l j, (l < n)%nat -> (j < k)%nat -> (keeps x t (at_least l (ind j) 0 0) <-> 0 <= x l j)).
  { intros l j Hl Hj. rewrite at_least_spec, ind_dot by auto. split; intros; lra. }
  split; intros (A & B); (split; [intros l j Hl Hj; apply P; auto|intros j Hj; apply E; auto]).
Qed.

(* Largest total under further limits on the shares. *)
Lemma best_allocation w p x0 : nonneg w -> feasible x0 -> Forall (keeps x0 0) p ->
  exists x, feasible x /\ Forall (keeps x 0) p /\
    forall y, feasible y -> Forall (keeps y 0) p -> total w y <= total w x.
Proof.
  intros W F0 P0. set (zero := [Limit (fun _ _ => 0) 1 0; Limit (fun _ _ => 0) (-1) 0]).
  assert (Z : forall x t, Forall (keeps x t) zero <-> t = 0).
  { intros x t. unfold zero. rewrite !Forall_cons_iff. unfold keeps. cbn [on_shares on_level at_most].
    replace (total (fun _ _ => 0) x) with 0.
    - split; [intros (A & B & _); lra|intros ->; split; [lra|split; [lra|constructor]]].
    - symmetry. apply sum_zero; intros; apply sum_zero; intros; ring. }
  destruct (program_optimum (capacity ++ zero ++ p) w 0 x0 0 (sum n (fun l => dot k (w l) m))) as (x & t & F & Max).
  - rewrite !Forall_app, capacity_spec, Z. auto.
  - intros x t F. rewrite !Forall_app, capacity_spec, Z in F. destruct F as (F & -> & _).
    assert (total w x <= sum n (fun l => dot k (w l) m)) by (apply sum_le; intros; now apply rate_at_most). lra.
  - rewrite !Forall_app, capacity_spec, Z in F. destruct F as (F & -> & P). exists x. repeat split; try apply F; auto.
    intros y Fy Py. specialize (Max y 0). rewrite !Forall_app, capacity_spec, Z in Max.
    assert (total w y + 0 * 0 <= total w x + 0 * 0) by auto. lra.
Qed.

(* The largest t with w_l.x_l >= a_l + b_l t for all users, under further limits. *)
Lemma largest_level w p a b x0 t0 i : nonneg w -> (i < n)%nat -> 0 < b i ->
  feasible x0 -> Forall (keeps x0 t0) p -> (forall l, (l < n)%nat -> a l + b l * t0 <= rate w x0 l) ->
  exists x t, (feasible x /\ Forall (keeps x t) p /\ forall l, (l < n)%nat -> a l + b l * t <= rate w x l) /\
    forall y s, feasible y -> Forall (keeps y s) p -> (forall l, (l < n)%nat -> a l + b l * s <= rate w y l) -> s <= t.
Proof.
  intros W Hi B F0 P0 R0. set (q := capacity ++ by_users n (fun l => at_least l (w l) (b l) (a l)) ++ p).
  assert (Q : forall x t, Forall (keeps x t) q <->
    feasible x /\ (forall l, (l < n)%nat -> a l + b l * t <= rate w x l) /\ Forall (keeps x t) p).
  { intros x t. unfold q. rewrite !Forall_app, capacity_spec, by_users_spec.
    split; intros (F & R & P); (split; [exact F|split; [|exact P]]); intros l Hl; specialize (R l Hl);
      rewrite at_least_spec in *; auto. }
  assert (Z : forall x, total (fun _ _ => 0) x = 0) by (intros; apply sum_zero; intros; apply sum_zero; intros; ring).
  destruct (program_optimum q (fun _ _ => 0) 1 x0 t0 ((dot k (w i) m - a i) / b i)) as (x & t & F & Max).
  - now apply Q.
  - intros x t F. apply Q in F as (F & R & _). rewrite Z. specialize (R i Hi). pose proof (rate_at_most w x i W F Hi).
    apply Rmult_le_reg_r with (b i); [exact B|]. replace ((dot k (w i) m - a i) / b i * b i) with (dot k (w i) m - a i)
      by (field; lra). lra.
  - apply Q in F as (F & R & P). exists x, t. repeat split; try apply F; auto. intros y s Fy Py Ry.
    specialize (Max y s). rewrite !Z in Max. enough (0 + 1 * s <= 0 + 1 * t) by lra. now apply Max, Q.
Qed.

(* -- The optima exist -- *)

Lemma cooperative_exists pi w : nonneg w -> (forall j, (j < k)%nat -> 0 <= m j) -> exists x, cooperative pi w x.
Proof.
  intros W M.
  assert (E : forall x, Forall (keeps x 0) (by_pairs n n (envy_limit pi w)) <-> envy_free pi w x).
  { intros x. rewrite by_pairs_spec. split; intros H l i Hl Hi; apply (envy_limit_spec pi w x 0); auto. }
  destruct (best_allocation w (by_pairs n n (envy_limit pi w)) (fun _ _ => 0)) as (x & F & P & Max);
    [auto|now apply nothing| |].
  - apply E. intros l i Hl Hi. rewrite rate_of_nothing.
    change (dot k (w l) (fun _ => 0)) with (rate w (fun _ _ => 0) l).
    rewrite rate_of_nothing. lra.
  - exists x. split; [exact F|split; [now apply E|]]. intros y Fy Ey. apply Max; [exact Fy|now apply E].
Qed.

Lemma largest_total_exists w : nonneg w -> (forall j, (j < k)%nat -> 0 <= m j) -> exists x, largest_total w x.
Proof.
  intros W M. destruct (best_allocation w [] (fun _ _ => 0)) as (x & F & _ & Max);
    [auto|now apply nothing|constructor|].
  exists x. split; auto.
Qed.

Lemma part_of_all pi l : weights pi -> (l < n)%nat -> 0 < pi l / sum n pi.
Proof. intros Pi Hl. apply Rdiv_lt_0_compat; [auto|now apply weights_sum with l]. Qed.

Lemma all_parts pi : (0 < n)%nat -> weights pi -> sum n (fun l => pi l / sum n pi) = 1.
Proof.
  intros N Pi. assert (0 < sum n pi) by now apply weights_sum with 0%nat.
  unfold Rdiv. rewrite sum_scal_r. field; lra.
Qed.

(* Every user has its part of every type. *)
Definition split_by_weight (pi : nat -> R) : table := parts (fun l => pi l / sum n pi).

Lemma split_feasible pi : (0 < n)%nat -> weights pi -> (forall j, (j < k)%nat -> 0 <= m j) ->
  feasible (split_by_weight pi).
Proof.
  intros N Pi M. apply parts_feasible; auto; [intros l Hl; left; now apply part_of_all|].
  rewrite all_parts by auto. lra.
Qed.

Lemma split_sharing pi w : sharing_incentive pi w (split_by_weight pi).
Proof. intros l _. unfold rate, split_by_weight. rewrite dot_parts. lra. Qed.

Lemma largest_sharing_total_exists pi w : (0 < n)%nat -> weights pi -> nonneg w ->
  (forall j, (j < k)%nat -> 0 <= m j) -> exists x, largest_sharing_total pi w x.
Proof.
  intros N Pi W M.
  set (fair := by_users n (fun l => at_least l (w l) 0 (dot k (w l) m * (pi l / sum n pi)))).
  assert (E : forall x, Forall (keeps x 0) fair <-> sharing_incentive pi w x).
  { intros x. unfold fair. rewrite by_users_spec. split; intros H l Hl; specialize (H l Hl); revert H;
    rewrite at_least_spec by auto; unfold rate; lra. }
  destruct (best_allocation w fair (split_by_weight pi)) as (x & F & P & Max); [auto|now apply split_feasible| |].
  - apply E, split_sharing.
  - exists x. split; [exact F|split; [now apply E|]]. intros y Fy Sy. apply Max; [exact Fy|now apply E].
Qed.

(* Users with at least a level t of at least 0 can give GPUs away until they have exactly t. *)
Lemma scale_down pi w y t : weights pi -> nonneg w -> feasible y -> 0 <= t ->
  (forall l, (l < n)%nat -> t * pi l <= rate w y l) -> exists z, level pi w z t.
Proof.
  intros Pi W (Y & Cap) T R. set (c := fun l => t * pi l / rate w y l).
  assert (C : forall l, (l < n)%nat -> 0 <= c l <= 1 /\ c l * rate w y l = t * pi l).
  { intros l Hl. specialize (R l Hl). specialize (Pi l Hl). assert (0 <= t * pi l) by nra. unfold c.
    destruct (Req_dec (rate w y l) 0) as [E|E].
    - rewrite E in *. replace (t * pi l) with 0 by lra. unfold Rdiv. rewrite Rmult_0_l. lra.
    - assert (0 < rate w y l) by lra. split; [split|field; lra].
      + apply Rmult_le_pos; [auto|left; now apply Rinv_0_lt_compat].
      + apply Rmult_le_reg_r with (rate w y l); [auto|]. field_simplify; lra. }
  exists (fun l j => c l * y l j). split; [split|].
  - intros l j Hl Hj. apply Rmult_le_pos; [apply C|apply Y]; auto.
  - intros j Hj. apply Rle_trans with (used y j); [|auto]. apply sum_le; intros l Hl.
    specialize (Y l j Hl Hj). destruct (C l Hl) as (B & _). nra.
  - intros l Hl. unfold rate. rewrite dot_scal. now apply C.
Qed.

Lemma noncooperative_exists pi w : (0 < n)%nat -> weights pi -> nonneg w ->
  (forall j, (j < k)%nat -> 0 <= m j) -> exists x t, noncooperative pi w x t.
Proof.
  intros N Pi W M.
  destruct (largest_level w [] (fun _ => 0) pi (fun _ _ => 0) 0 0) as (y & t & (F & _ & R) & Max); auto.
  - now apply nothing.
  - intros l _. rewrite rate_of_nothing. lra.
  - assert (0 <= t).
    { apply (Max (fun _ _ => 0)); [now apply nothing|constructor|]. intros l _. rewrite rate_of_nothing. lra. }
    destruct (scale_down pi w y t) as (z & Z); auto.
    { intros l Hl. specialize (R l Hl). lra. }
    exists z, t. split; [exact Z|]. intros v s (Fv & Rv). apply (Max v); auto.
    intros l Hl. rewrite Rv by auto. lra.
Qed.

Lemma level_nonneg pi w x t : (0 < n)%nat -> weights pi -> nonneg w -> level pi w x t -> 0 <= t.
Proof.
  intros N Pi W ((X & _) & R). specialize (R 0%nat N). specialize (Pi 0%nat N).
  pose proof (rate_nonneg w x 0 W X N). nra.
Qed.

Lemma level_total pi w x t : level pi w x t -> total w x = t * sum n pi.
Proof. intros (_ & R). unfold total. rewrite <- sum_scal. apply sum_ext; auto. Qed.

(* -- Theorem 5.1: cooperative OEF -- *)

(* Claims oef/thm-5.1-envy, oef/table-1-cooperative-envy: cooperative OEF is envy-free, with weights
   pi_i w_l.x_l >= pi_l w_l.x_i. *)
Theorem cooperative_envy_free pi w x : cooperative pi w x -> envy_free pi w x.
Proof. now intros (_ & EF & _). Qed.

(* Claim oef/thm-5.1-optimal-envy-free: cooperative OEF has the largest total of all envy-free allocations; an optimum
   exists. *)
Theorem cooperative_optimal pi w : nonneg w -> (forall j, (j < k)%nat -> 0 <= m j) -> (exists x, cooperative pi w x) /\
  forall x y, cooperative pi w x -> feasible y -> envy_free pi w y -> total w y <= total w x.
Proof.
  intros W M. split; [now apply cooperative_exists|]. intros x y (_ & _ & Max) F E. now apply Max.
Qed.

(* Idle GPUs are worth nothing to any user: divided by weight they would raise the total. *)
Lemma cooperative_idle pi w x : weights pi -> nonneg w -> cooperative pi w x ->
  forall l j, (l < n)%nat -> (j < k)%nat -> w l j * (m j - used x j) = 0.
Proof.
  intros Pi W ((X & Cap) & EF & Max) l j Hl Hj. set (idle := fun j => m j - used x j).
  assert (Idle : forall j, (j < k)%nat -> 0 <= idle j) by (intros i Hi; specialize (Cap i Hi); unfold idle; lra).
  set (part := fun l => pi l / sum n pi). assert (S : 0 < sum n pi) by now apply weights_sum with l.
  assert (Part : forall i, (i < n)%nat -> 0 < part i) by (intros i Hi; now apply part_of_all).
  set (y := fun l j => x l j + part l * idle j).
  assert (R : forall l i, dot k (w l) (y i) = dot k (w l) (x i) + part i * dot k (w l) idle).
  { intros; unfold y. now rewrite dot_plus, dot_scal. }
  assert (D : forall a, (a < n)%nat -> 0 <= dot k (w a) idle) by (intros; apply dot_nonneg; auto).
  assert (Le : total w y <= total w x).
  { apply Max.
    - split.
      + intros i s Hi Hs. unfold y. specialize (X i s Hi Hs). specialize (Idle s Hs). specialize (Part i Hi). nra.
      + intros s Hs. unfold used, y. rewrite sum_plus, sum_scal_r. unfold part. rewrite all_parts by (auto; lia).
        unfold idle, used. lra.
    - intros a i Ha Hi. unfold rate. rewrite !R. specialize (EF a i Ha Hi). unfold rate in EF.
      replace (pi a * (dot k (w a) (x i) + part i * dot k (w a) idle))
        with (pi a * dot k (w a) (x i) + pi i * (part a * dot k (w a) idle)) by (unfold part; field; lra). lra. }
  unfold total in Le. rewrite (sum_ext n (rate w y) (fun a => rate w x a + part a * dot k (w a) idle)) in Le
    by (intros; apply R).
  rewrite sum_plus in Le.
  assert (P : part l * dot k (w l) idle <= sum n (fun a => part a * dot k (w a) idle)).
  { apply (sum_term n (fun a => part a * dot k (w a) idle)); auto. intros a Ha. specialize (D a Ha).
    specialize (Part a Ha). nra. }
  assert (w l j * idle j <= dot k (w l) idle).
  { apply (sum_term k (fun j => w l j * idle j)); auto. intros i Hi. apply Rmult_le_pos; auto. }
  assert (0 <= w l j * idle j) by (apply Rmult_le_pos; auto).
  specialize (D l Hl). specialize (Part l Hl). fold (idle j). nra.
Qed.

(* Claim oef/thm-5.1-all-used: cooperative OEF uses all GPUs of every type that some user can use. *)
Theorem cooperative_all_used pi w x l j : weights pi -> nonneg w -> cooperative pi w x ->
  (l < n)%nat -> (j < k)%nat -> 0 < w l j -> used x j = m j.
Proof. intros Pi W C Hl Hj P. pose proof (cooperative_idle pi w x Pi W C l j Hl Hj). nra. Qed.

Lemma worth_of_all pi w x l : weights pi -> nonneg w -> cooperative pi w x -> (l < n)%nat ->
  sum n (fun i => dot k (w l) (x i)) = dot k (w l) m.
Proof.
  intros Pi W C Hl. rewrite dot_used. apply sum_ext; intros j Hj.
  pose proof (cooperative_idle pi w x Pi W C l j Hl Hj). lra.
Qed.

(* Claims oef/thm-5.1-sharing, oef/table-1-cooperative-sharing: cooperative OEF gives the sharing incentive,
   with weights w_l.x_l >= w_l.m pi_l / sum_i pi_i. *)
Theorem cooperative_sharing pi w x : weights pi -> nonneg w -> cooperative pi w x -> sharing_incentive pi w x.
Proof.
  intros Pi W C l Hl. assert (S : 0 < sum n pi) by now apply weights_sum with l.
  assert (L : pi l * dot k (w l) m <= sum n pi * rate w x l).
  { rewrite <- (worth_of_all pi w x l) by auto. rewrite <- sum_scal, <- sum_scal_r.
    apply sum_le; intros i Hi. now apply C. }
  apply Rmult_le_reg_r with (sum n pi); [exact S|]. unfold Rdiv. field_simplify; lra.
Qed.

(* Claim oef/weights-fair (1 of 2): cooperative OEF is envy-free and gives the sharing incentive, both in proportion to
   the weights. *)
Theorem weights_fair pi w x : weights pi -> nonneg w -> cooperative pi w x ->
  envy_free pi w x /\ sharing_incentive pi w x.
Proof. intros Pi W C. split; [now apply cooperative_envy_free|now apply cooperative_sharing]. Qed.

(* -- Theorem 5.3: Pareto efficiency -- *)

(* Prices at which every user has the most that it can have for its money: no allocation dominates. *)
Lemma priced_efficient w x p b : feasible x -> (forall j, (j < k)%nat -> 0 <= p j) ->
  (forall j, (j < k)%nat -> p j * used x j = p j * m j) -> (forall l, (l < n)%nat -> 0 < b l) ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> w l j <= b l * p j) ->
  (forall l, (l < n)%nat -> rate w x l = b l * dot k p (x l)) -> pareto_efficient w x.
Proof.
  intros F P Sold B Worth Spent y (Y & Cap) All.
  assert (R : forall l, (l < n)%nat -> rate w y l <= b l * dot k p (y l)).
  { intros l Hl. rewrite <- dot_scal_l. apply dot_le; auto. }
  assert (Cost : forall l, (l < n)%nat -> dot k p (x l) <= dot k p (y l)).
  { intros l Hl. apply Rmult_le_reg_l with (b l); [auto|]. rewrite <- Spent by auto. specialize (All l Hl).
    specialize (R l Hl). lra. }
  assert (E : sum n (fun l => dot k p (y l)) <= sum n (fun l => dot k p (x l))).
  { rewrite !dot_used. apply Rle_trans with (dot k p m); [now apply dot_le_r|].
    right. apply sum_ext; intros; symmetry; auto. }
  intros l Hl. pose proof (sum_le_eq n _ _ Cost E l Hl) as C. cbn in C. specialize (R l Hl).
  rewrite <- C, <- Spent in R by auto.
  specialize (All l Hl). lra.
Qed.

(* A user with more than its part of the level can give something to all users. *)
Lemma spread pi w y t a : weights pi -> positive w -> 0 <= t -> feasible y ->
  (forall l, (l < n)%nat -> t * pi l <= rate w y l) -> (a < n)%nat -> t * pi a < rate w y a ->
  exists s z, t < s /\ level pi w z s.
Proof.
  intros Pi W T F All Ha More. pose proof F as (Y & Cap). assert (N : 0 < INR n) by (apply lt_0_INR; lia).
  assert (W0 := positive_nonneg w W). set (u := rate w y a) in *. assert (0 <= t * pi a) by (specialize (Pi a Ha); nra).
  set (e := (u - t * pi a) / (2 * u)).
  assert (E : 0 < e <= 1 /\ e * u = (u - t * pi a) / 2).
  { split; [split|unfold e; field; lra].
    - unfold e. apply Rdiv_lt_0_compat; lra.
    - unfold e. apply Rmult_le_reg_r with (2 * u); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (EN : 0 < e / INR n) by (apply Rdiv_lt_0_compat; lra).
  set (z := fun l j => y l j + e / INR n * y a j - (if Nat.eqb l a then e * y a j else 0)).
  assert (Rate : forall l, rate w z l = rate w y l + e / INR n * dot k (w l) (y a) - if Nat.eqb l a then e * u else 0).
  { intros l. unfold rate, z. rewrite dot_minus, dot_plus, dot_scal. f_equal.
    destruct (Nat.eqb_spec l a) as [->|]; [apply dot_scal|]. apply sum_zero; intros; ring. }
  assert (Fz : feasible z).
  { split.
    - intros l j Hl Hj. unfold z. assert (0 <= y a j) by auto. assert (0 <= y l j) by auto.
      destruct (Nat.eqb_spec l a) as [->|]; nra.
    - intros j Hj. unfold used, z. rewrite sum_minus, sum_plus, sum_const, (sum_at n a (e * y a j)) by auto.
      replace (INR n * (e / INR n * y a j)) with (e * y a j) by (field; lra). specialize (Cap j Hj).
      unfold used in Cap. lra. }
  assert (Worth : forall l, (l < n)%nat -> 0 < dot k (w l) (y a)).
  { intros l Hl. destruct (sum_pos_term k (fun j => w a j * y a j)) as (j & Hj & P).
    - change (0 < u). lra.
    - apply Rlt_le_trans with (w l j * y a j).
      + apply Rmult_lt_0_compat; [auto|]. specialize (W a j Ha Hj). specialize (Y a j Ha Hj). nra.
      + apply (sum_term k (fun j => w l j * y a j)); auto. intros i Hi. apply Rmult_le_pos; auto. }
  destruct (room_above n (fun l => rate w z l / pi l) t) as (s & Ls & Us).
  { intros l Hl. apply Rmult_lt_reg_r with (pi l); [auto|]. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rate by (specialize (Pi l Hl); lra).
    assert (0 < e / INR n * dot k (w l) (y a)) by (apply Rmult_lt_0_compat; auto).
    specialize (All l Hl). destruct (Nat.eqb_spec l a) as [->|]; [change (rate w y a) with u|]; lra. }
  destruct (scale_down pi w z s) as (v & V); auto; [lra| |now exists s, v].
  intros l Hl. specialize (Us l Hl). apply Rmult_le_compat_r with (r := pi l) in Us; [|left; auto].
  replace (rate w z l / pi l * pi l) with (rate w z l) in Us by (field; specialize (Pi l Hl); lra). exact Us.
Qed.

(* Claims oef/thm-5.3-positive, oef/table-1-noncooperative-pareto: every optimum of non-cooperative OEF is
   Pareto-efficient if all speedups are positive. *)
Theorem noncooperative_pareto pi w x t : weights pi -> positive w -> noncooperative pi w x t -> pareto_efficient w x.
Proof.
  intros Pi W ((F & R) & Max) y Fy All a Ha. destruct (All a Ha) as [More|]; auto. exfalso.
  destruct (spread pi w y t a) as (s & z & Ls & Lz); auto.
  - apply (level_nonneg pi w x); [lia|auto|now apply positive_nonneg|now split].
  - intros l Hl. rewrite <- R by auto. auto.
  - rewrite <- R; auto.
  - specialize (Max z s Lz). lra.
Qed.

(* The largest sum of c_l w_l.x_l, where every user has at least the rate g_l. *)
Definition weighted_sum (c : nat -> R) (w x : table) : R := sum n (fun l => c l * rate w x l).
Definition largest_sum (c g : nat -> R) (w x : table) : Prop := feasible x /\
  (forall l, (l < n)%nat -> g l <= rate w x l) /\
  forall y, feasible y -> (forall l, (l < n)%nat -> g l <= rate w y l) -> weighted_sum c w y <= weighted_sum c w x.

Lemma largest_sum_exists c g w x0 : weights c -> nonneg w -> feasible x0 ->
  (forall l, (l < n)%nat -> g l <= rate w x0 l) -> exists x, largest_sum c g w x.
Proof.
  intros C W F0 R0. set (rows := by_users n (fun l => at_least l (w l) 0 (g l))).
  assert (E : forall x, Forall (keeps x 0) rows <-> forall l, (l < n)%nat -> g l <= rate w x l).
  { intros x. unfold rows. rewrite by_users_spec. split; intros A l Hl; specialize (A l Hl); revert A;
    rewrite at_least_spec by auto; unfold rate; lra. }
  set (v := fun l j => c l * w l j).
  assert (T : forall x, total v x = weighted_sum c w x) by (intros; apply sum_ext; intros l _; apply dot_scal_l).
  destruct (best_allocation v rows x0) as (x & F & P & Max); [|auto|now apply E|].
  - intros l j Hl Hj. apply Rmult_le_pos; [left; apply C|]; auto.
  - exists x. split; [exact F|split; [now apply E|]]. intros y Fy Ry. rewrite <- !T. apply Max; [exact Fy|now apply E].
Qed.

(* Claim oef/largest-total-pareto (1 of 2): the largest sum of throughputs, with positive weights, is Pareto-efficient
   if every user must have at least a given throughput g_l. *)
Theorem largest_sum_pareto c g w x : weights c -> largest_sum c g w x -> pareto_efficient w x.
Proof.
  intros C (_ & G & Max) y Fy All.
  assert (Le : weighted_sum c w y <= weighted_sum c w x).
  { apply Max; [exact Fy|]. intros l Hl. specialize (G l Hl). specialize (All l Hl). lra. }
  assert (Each : forall l, (l < n)%nat -> c l * rate w x l <= c l * rate w y l).
  { intros l Hl. apply Rmult_le_compat_l; [left|]; auto. }
  intros l Hl. pose proof (sum_le_eq n _ _ Each Le l Hl) as E. cbn in E.
  apply Rmult_eq_reg_l with (c l); [lra|]. specialize (C l Hl). lra.
Qed.

(* Claim oef/largest-total-pareto (2 of 2): the same without given throughputs, eq. (4). *)
Theorem largest_total_pareto c w x : weights c -> feasible x ->
  (forall z, feasible z -> weighted_sum c w z <= weighted_sum c w x) -> pareto_efficient w x.
Proof.
  intros C F Max y Fy All. apply (largest_sum_pareto c (rate w x) w x); auto.
  split; [exact F|split; [intros; lra|auto]].
Qed.

(* Claim oef/sharing-only-sharing: the largest total under the sharing incentive is sharing-incentive. *)
Theorem sharing_only_sharing pi w x : largest_sharing_total pi w x -> sharing_incentive pi w x.
Proof. now intros (_ & SI & _). Qed.

(* -- Equations (7) and (8): the constraints of the slowest user -- *)

(* User 0 gives the part e of its GPUs to the others, by weight. *)
Definition give_away (pi : nat -> R) (e : R) (x : table) : table := fun l j =>
  x l j + e * (if Nat.eqb l 0 then -1 else pi l / (sum n pi - pi 0%nat)) * x 0%nat j.

(* User 0 is the slowest, and it has GPUs of a type on which some user is faster. *)
Definition slowest_with_better (w x : table) : Prop :=
  (forall l j, (l < n)%nat -> (j < k)%nat -> w 0%nat j <= w l j) /\
  exists l j, (l < n)%nat /\ (j < k)%nat /\ w 0%nat j < w l j /\ 0 < x 0%nat j.

Section Slowest.
Variables (pi : nat -> R) (w x : table).
Hypothesis Pi : weights pi.
Hypothesis W : nonneg w.
Hypothesis F : feasible x.
Hypothesis S : slowest_with_better w x.

Lemma other_weight l : (0 < l < n)%nat -> 0 < pi l <= sum n pi - pi 0%nat.
Proof.
  intros Hl. split; [apply Pi; lia|].
  assert (P : pi l <= sum n (fun i => pi i - if Nat.eqb i 0 then pi 0%nat else 0)).
  { apply Rle_trans with (pi l - if Nat.eqb l 0 then pi 0%nat else 0); [destruct (Nat.eqb_spec l 0); [lia|lra]|].
    apply (sum_term n (fun i => pi i - if Nat.eqb i 0 then pi 0%nat else 0)); [|lia].
    intros i Hi. destruct (Nat.eqb_spec i 0) as [->|]; [lra|]. specialize (Pi i Hi). lra. }
  rewrite sum_minus, sum_at in P by lia. exact P.
Qed.

Lemma others_weight : (1 < n)%nat /\ 0 < sum n pi - pi 0%nat.
Proof.
  destruct S as (_ & l & j & Hl & Hj & L & _). assert (D : l <> 0%nat) by (intros ->; lra). split; [lia|].
  assert (B : 0 < pi l <= sum n pi - pi 0%nat) by (apply other_weight; lia). lra.
Qed.

Let part (l : nat) : R := if Nat.eqb l 0 then -1 else pi l / (sum n pi - pi 0%nat).

Lemma part_sum : sum n part = 0.
Proof.
  destruct others_weight as (N & P). set (q := sum n pi - pi 0%nat) in *.
  rewrite (sum_ext n part (fun l => / q * pi l - if Nat.eqb l 0 then 1 + / q * pi 0%nat else 0)).
  - rewrite sum_minus, sum_scal, sum_at by lia. unfold q. field. unfold q in P. lra.
  - intros l _. unfold part. fold q. destruct (Nat.eqb_spec l 0) as [->|]; [ring|]. unfold Rdiv. ring.
Qed.

Lemma dot_give v e l : dot k v (give_away pi e x l) = dot k v (x l) + e * part l * dot k v (x 0%nat).
Proof. unfold give_away. fold (part l). now rewrite dot_plus, dot_scal. Qed.

Lemma give_feasible e : 0 <= e <= 1 -> feasible (give_away pi e x).
Proof.
  intros E. destruct others_weight as (N & P), F as (X & Cap). split.
  - intros l j Hl Hj. unfold give_away. pose proof (X l j Hl Hj). pose proof (X 0%nat j ltac:(lia) Hj).
    destruct (Nat.eqb_spec l 0) as [->|D]; [nra|].
    assert (0 < pi l / (sum n pi - pi 0%nat)) by (apply Rdiv_lt_0_compat; auto).
    assert (0 <= e * (pi l / (sum n pi - pi 0%nat)) * x 0%nat j)
      by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra). lra.
  - intros j Hj. specialize (Cap j Hj). unfold used, give_away in *. rewrite sum_plus, sum_scal_r, sum_scal.
    change (sum n (fun l => if Nat.eqb l 0 then -1 else pi l / (sum n pi - pi 0%nat))) with (sum n part).
    rewrite part_sum. lra.
Qed.

Lemma give_gains e : 0 < e -> total w x < total w (give_away pi e x).
Proof.
  intros E. destruct others_weight as (N & P), S as (Slow & a & j & Ha & Hj & L & X0), F as (X & _).
  assert (D : a <> 0%nat) by (intros ->; lra).
  assert (Worth : forall l, (l < n)%nat -> dot k (w 0%nat) (x 0%nat) <= dot k (w l) (x 0%nat)).
  { intros l Hl. apply dot_le; auto. intros i Hi. apply X; auto; lia. }
  assert (More : dot k (w 0%nat) (x 0%nat) < dot k (w a) (x 0%nat)).
  { apply (sum_lt k _ _ j); [|auto|now apply Rmult_lt_compat_r].
    intros i Hi. apply Rmult_le_compat_r; [apply X; auto; lia|auto]. }
  assert (G : sum n (fun l => part l * dot k (w 0%nat) (x 0%nat)) < sum n (fun l => part l * dot k (w l) (x 0%nat))).
  { apply (sum_lt n _ _ a); [|auto|].
    - intros l Hl. unfold part. destruct (Nat.eqb_spec l 0) as [->|]; [lra|]. apply Rmult_le_compat_l; auto.
      left. apply Rdiv_lt_0_compat; auto.
    - unfold part. destruct (Nat.eqb_spec a 0); [lia|]. apply Rmult_lt_compat_l; auto. apply Rdiv_lt_0_compat; auto. }
  rewrite sum_scal_r, part_sum, Rmult_0_l in G.
  unfold total. rewrite (sum_ext n (rate w (give_away pi e x))
    (fun l => rate w x l + e * (part l * dot k (w l) (x 0%nat)))).
  - rewrite sum_plus, sum_scal. apply Rmult_lt_compat_l with (r := e) in G; lra.
  - intros l _. unfold rate. rewrite dot_give. ring.
Qed.

Lemma envy_tight : cooperative pi w x ->
  exists l, (0 < l < n)%nat /\ pi l * rate w x 0 = pi 0%nat * dot k (w 0%nat) (x l).
Proof.
  intros (_ & EF & Max). apply NNPP. intros None. destruct others_weight as (N & P).
  set (slack := fun l => if Nat.eqb l 0 then 1 else pi l * rate w x 0 - pi 0%nat * dot k (w 0%nat) (x l)).
  destruct (room_above n slack 0) as (r & R & Least).
  { intros l Hl. unfold slack. destruct (Nat.eqb_spec l 0) as [->|D]; [lra|].
    assert (0 < l)%nat by lia. specialize (EF 0%nat l ltac:(lia) Hl).
    destruct (Req_dec (pi l * rate w x 0) (pi 0%nat * dot k (w 0%nat) (x l))) as [E|]; [|lra].
    exfalso. apply None. exists l. split; [lia|exact E]. }
  set (u := rate w x 0). assert (U : 0 <= u) by (apply rate_nonneg; auto; [apply F|lia]).
  set (q := sum n pi - pi 0%nat) in *.
  assert (B : forall l, (l < n)%nat -> l <> 0%nat -> 0 < pi l <= q).
  { intros l Hl D. apply other_weight. lia. }
  destruct (small 1 r ((q + pi 0%nat) * u + 1)) as (e & E & E1 & E2); [lra|lra| |].
  { specialize (Pi 0%nat ltac:(lia)). assert (0 <= (q + pi 0%nat) * u) by (apply Rmult_le_pos; lra). lra. }
  apply (Rlt_not_le _ _ (give_gains e E)), Max; [apply give_feasible; lra|].
  intros l i Hl Hi. unfold rate. rewrite !dot_give. specialize (EF l i Hl Hi) as EFli. unfold rate in EFli.
  assert (X0 : 0 <= dot k (w l) (x 0%nat)) by (apply dot_nonneg; [auto|intros; apply F; auto; lia]).
  unfold part. fold q. destruct (Nat.eqb_spec l 0) as [->|Dl], (Nat.eqb_spec i 0) as [->|Di].
  - lra.
  - specialize (Least i Hi). unfold slack in Least. destruct (Nat.eqb_spec i 0); [lia|]. fold u in Least, EFli |- *.
    change (dot k (w 0%nat) (x 0%nat)) with u in *. specialize (B i Hi Di). pose proof (Pi 0%nat ltac:(lia)) as P0.
    assert (Q : pi i / q <= 1).
    { apply Rmult_le_reg_r with q; [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
    assert (A1 : pi 0%nat * (e * (pi i / q) * u) <= pi 0%nat * (e * 1 * u)).
    { apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_r; [auto|]. apply Rmult_le_compat_l; lra. }
    assert (A2 : pi i * (e * u) <= q * (e * u)) by (apply Rmult_le_compat_r; [apply Rmult_le_pos|]; lra).
    nra.
  - specialize (Pi l Hl) as Pl. pose proof (Pi 0%nat ltac:(lia)) as P0.
    assert (0 < pi l / q) by now apply Rdiv_lt_0_compat.
    assert (0 <= pi 0%nat * (e * (pi l / q) * dot k (w l) (x 0%nat)))
      by (apply Rmult_le_pos; [|apply Rmult_le_pos; [apply Rmult_le_pos|]]; lra).
    assert (0 <= pi l * (e * dot k (w l) (x 0%nat))) by (repeat apply Rmult_le_pos; lra). nra.
  - unfold Rdiv. nra.
Qed.

Lemma sharing_tight : largest_sharing_total pi w x -> rate w x 0 = dot k (w 0%nat) m * (pi 0%nat / sum n pi).
Proof.
  intros (_ & SI & Max). destruct others_weight as (N & P). set (u := rate w x 0).
  set (g := dot k (w 0%nat) m * (pi 0%nat / sum n pi)).
  assert (Le : g <= u) by (apply SI; lia). destruct Le as [Lt|]; [|auto]. exfalso.
  assert (U : 0 <= u) by (apply rate_nonneg; auto; [apply F|lia]).
  destruct (small 1 (u - g) (u + 1)) as (e & E & E1 & E2); [lra|lra|lra|].
  apply (Rlt_not_le _ _ (give_gains e E)), Max; [apply give_feasible; lra|].
  intros l Hl. unfold rate. rewrite dot_give. unfold part. destruct (Nat.eqb_spec l 0) as [->|D].
  - change (dot k (w 0%nat) (x 0%nat)) with u. fold g. lra.
  - assert (0 <= e * (pi l / (sum n pi - pi 0%nat)) * dot k (w l) (x 0%nat)).
    { repeat apply Rmult_le_pos; [lra|left; auto|left; now apply Rinv_0_lt_compat|].
      apply dot_nonneg; [auto|intros; apply F; auto; lia]. }
    specialize (SI l Hl). unfold rate in SI. lra.
Qed.

End Slowest.

(* Claim oef/eq-7-corrected: in every optimum of cooperative OEF in which the slowest user has GPUs of a type on which
   some user is faster, w_1.x_1 = w_1.x_l for some other user l; with weights pi_l w_1.x_1 = pi_1 w_1.x_l. *)
Theorem slowest_envy_tight pi w x : weights pi -> nonneg w -> slowest_with_better w x -> cooperative pi w x ->
  exists l, (0 < l < n)%nat /\ pi l * rate w x 0 = pi 0%nat * dot k (w 0%nat) (x l).
Proof. intros Pi W S C. apply envy_tight; auto. apply C. Qed.

(* Claim oef/eq-8-corrected: in every optimum of the largest total under the sharing incentive in which the slowest
   user has GPUs of a type on which some user is faster, it has exactly its part of the cluster. *)
Theorem slowest_sharing_tight pi w x : weights pi -> nonneg w -> slowest_with_better w x ->
  largest_sharing_total pi w x -> rate w x 0 = dot k (w 0%nat) m * (pi 0%nat / sum n pi).
Proof. intros Pi W S O. apply sharing_tight; auto. apply O. Qed.

(* -- Prices that prove the largest level -- *)

(* Prices p of types and prices lambda of the rows t pi_l <= w_l.x_l. *)
Definition level_prices (pi : nat -> R) (w : table) (t : R) (p lambda : nat -> R) : Prop :=
  (forall j, (j < k)%nat -> 0 <= p j) /\ (forall l, (l < n)%nat -> 0 <= lambda l) /\
  sum n (fun l => lambda l * pi l) = 1 /\ dot k p m = t /\
  forall l j, (l < n)%nat -> (j < k)%nat -> lambda l * w l j <= p j.

(* At these prices no allocation has a larger sum of rates times lambda. *)
Lemma level_prices_bound pi w t p lambda y : level_prices pi w t p lambda -> feasible y ->
  sum n (fun l => lambda l * rate w y l) <= t.
Proof.
  intros (P & _ & _ & <- & Cost) (Y & Cap).
  apply Rle_trans with (sum n (fun l => dot k p (y l))).
  - apply sum_le; intros l Hl. unfold rate. rewrite <- dot_scal_l. apply dot_le; auto.
  - rewrite dot_used. now apply dot_le_r.
Qed.

Lemma level_prices_exist pi w x t : (0 < n)%nat -> weights pi -> nonneg w -> noncooperative pi w x t ->
  exists p lambda, level_prices pi w t p lambda.
Proof.
  intros N Pi W (L & Max). pose proof L as (F & R). assert (T := level_nonneg pi w x t N Pi W L).
  set (A := fun i => if Nat.ltb i k then extended (n * k) (vector (fun _ => ind i)) 0
    else extended (n * k) (vector (of_user (i - k) (fun j => -1 * w (i - k)%nat j))) (pi (i - k)%nat)).
  set (b := fun i => if Nat.ltb i k then m i else 0).
  set (c := fun v => if Nat.eqb v (n * k) then 1 else 0).
  assert (Type_row : forall i, (i < k)%nat ->
    A i = extended (n * k) (vector (fun _ => ind i)) 0 /\ b i = m i).
  { intros i Hi. unfold A, b. now rewrite (proj2 (Nat.ltb_lt i k) Hi). }
  assert (User_row : forall l,
    A (k + l)%nat = extended (n * k) (vector (of_user l (fun j => -1 * w l j))) (pi l) /\ b (k + l)%nat = 0).
  { intros l. unfold A, b. rewrite (proj2 (Nat.ltb_ge (k + l) k)) by lia. now replace (k + l - k)%nat with l by lia. }
  assert (Value : forall z, dot (S (n * k)) c z = z (n * k)%nat).
  { intros z. rewrite <- (sum_at (S (n * k)) (n * k) (z (n * k)%nat)) by lia. apply sum_ext; intros v _. unfold c.
    destruct (Nat.eqb_spec v (n * k)) as [->|]; ring. }
  assert (Primal : forall z, primal (k + n) (S (n * k)) A b z -> z (n * k)%nat <= t).
  { intros z (Z & Rows).
    assert (Fz : feasible (matrix z)).
    { split; [intros l j Hl Hj; apply Z; nia|]. intros j Hj. specialize (Rows j ltac:(lia)).
      destruct (Type_row j Hj) as (Ea & Eb). rewrite Ea, Eb, dot_matrix in Rows.
      replace (used (matrix z) j) with (total (fun _ => ind j) (matrix z)); [lra|].
      apply sum_ext; intros; now apply ind_dot. }
    destruct (scale_down pi w (matrix z) (z (n * k)%nat)) as (y & Y); auto.
    { intros l Hl. specialize (Rows (k + l)%nat ltac:(lia)). destruct (User_row l) as (Ea & Eb).
      rewrite Ea, Eb, dot_matrix, total_of_user, dot_scal_l in Rows by auto. unfold rate. lra. }
    now apply (Max y). }
  assert (M : forall j, (j < k)%nat -> 0 <= m j).
  { intros j Hj. destruct F as (X & Cap). apply Rle_trans with (used x j); [|auto]. apply sum_nonneg; auto. }
  destruct (strong_duality (k + n) (S (n * k)) A b c (fun _ => 0) t) as (z & y & Pz & (Y & D) & E).
  { split; [intros; lra|]. intros i Hi. replace (dot (S (n * k)) (A i) (fun _ => 0)) with 0.
    - unfold b. destruct (Nat.ltb_spec i k); [auto|lra].
    - symmetry. apply sum_zero; intros; ring. }
  { intros z Pz. rewrite Value. now apply Primal. }
  rewrite Value in E. pose proof (Primal z Pz) as Le. set (p := y). set (mu := fun l => y (k + l)%nat).
  assert (Col : forall v, dot (k + n) (fun i => A i v) y =
    sum k (fun i => A i v * p i) + sum n (fun l => A (k + l)%nat v * mu l)) by (intros; apply sum_append).
  assert (Cost : forall l j, (l < n)%nat -> (j < k)%nat -> mu l * w l j <= p j).
  { intros l j Hl Hj. assert (B : (l * k + j < n * k)%nat) by nia. specialize (D (l * k + j)%nat ltac:(lia)).
    rewrite Col in D. unfold c in D. destruct (Nat.eqb_spec (l * k + j) (n * k)); [lia|].
    assert (At : forall f a, extended (n * k) (vector f) a (l * k + j)%nat = f l j).
    { intros f a. unfold extended. destruct (Nat.eqb_spec (l * k + j) (n * k)); [lia|now apply vector_at]. }
    rewrite (sum_ext k _ (fun i => if Nat.eqb i j then p j else 0)) in D.
    2: { intros i Hi. destruct (Type_row i Hi) as (-> & _). rewrite At. unfold ind. rewrite Nat.eqb_sym.
      destruct (Nat.eqb_spec i j) as [->|]; ring. }
    rewrite (sum_ext n _ (fun i => if Nat.eqb i l then -1 * w l j * mu l else 0)) in D.
    2: { intros i Hi. destruct (User_row i) as (-> & _). rewrite At. unfold of_user. rewrite Nat.eqb_sym.
      destruct (Nat.eqb_spec i l) as [->|]; ring. }
    rewrite !sum_at in D by auto. lra. }
  assert (All : 1 <= sum n (fun l => mu l * pi l)).
  { specialize (D (n * k)%nat ltac:(lia)). rewrite Col in D. unfold c in D. rewrite Nat.eqb_refl in D.
    assert (At : forall f a, extended (n * k) (vector f) a (n * k)%nat = a)
      by (intros; unfold extended; now rewrite Nat.eqb_refl).
    rewrite (sum_zero k) in D by (intros i Hi; destruct (Type_row i Hi) as (-> & _); rewrite At; ring).
    rewrite (sum_ext n _ (fun l => mu l * pi l)) in D
      by (intros l Hl; destruct (User_row l) as (-> & _); rewrite At; ring).
    lra. }
  assert (Total : dot k p m <= t).
  { enough (dot (k + n) b y = dot k p m) by lra. unfold dot. rewrite sum_append, (sum_zero n), Rplus_0_r.
    - apply sum_ext; intros i Hi. destruct (Type_row i Hi) as (_ & ->). unfold p. ring.
    - intros l Hl. destruct (User_row l) as (_ & ->). ring. }
  set (s := sum n (fun l => mu l * pi l)) in *. exists p, (fun l => mu l / s).
  assert (Mu : forall l, (l < n)%nat -> 0 <= mu l) by (intros; apply Y; lia).
  assert (I : 0 < / s <= 1).
  { split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  assert (Prices : forall j, (j < k)%nat -> 0 <= p j) by (intros; apply Y; lia).
  assert (Less : forall l j, (l < n)%nat -> (j < k)%nat -> mu l / s * w l j <= p j).
  { intros l j Hl Hj. apply Rle_trans with (mu l * w l j); [|auto].
    assert (0 <= mu l * w l j) by (apply Rmult_le_pos; auto).
    unfold Rdiv. replace (mu l * / s * w l j) with (/ s * (mu l * w l j)) by ring. nra. }
  assert (Part : sum n (fun l => mu l / s * pi l) = 1).
  { rewrite (sum_ext n _ (fun l => / s * (mu l * pi l))) by (intros; unfold Rdiv; ring).
    rewrite sum_scal. fold s. field. lra. }
  split; [exact Prices|split; [|split; [exact Part|split; [|exact Less]]]].
  - intros l Hl. apply Rmult_le_pos; [auto|lra].
  - apply Rle_antisym; [exact Total|].
    assert (B : sum n (fun l => mu l / s * rate w x l) <= dot k p m).
    { apply Rle_trans with (sum n (fun l => dot k p (x l))).
      - apply sum_le; intros l Hl. unfold rate. rewrite <- dot_scal_l. apply dot_le; [auto|]. intros j Hj. now apply F.
      - rewrite dot_used. apply dot_le_r; [auto|apply F]. }
    rewrite (sum_ext n _ (fun l => t * (mu l / s * pi l))) in B by (intros l Hl; rewrite R by auto; ring).
    rewrite sum_scal, Part in B. lra.
Qed.

(* Claim oef/thm-5.4-weighted-mean: whatever one user a reports, (1 - lambda) t' + lambda u <= t^*, where t' is the
   level after the report, u the true throughput of a, and lambda the price of its row at true speedups; with weights
   (1 - lambda pi_a) t' + lambda u <= t^*. Such prices exist. *)
Theorem report_weighted_mean pi w r x t y s a : weights pi -> nonneg w -> noncooperative pi w x t ->
  noncooperative pi r y s -> (a < n)%nat -> (forall l j, (l < n)%nat -> (j < k)%nat -> l <> a -> r l j = w l j) ->
  (exists p lambda, level_prices pi w t p lambda) /\
  forall p lambda, level_prices pi w t p lambda -> (1 - lambda a * pi a) * s + lambda a * rate w y a <= t.
Proof.
  intros Pi W X ((F & R) & _) Ha Honest. split; [apply (level_prices_exist pi w x); auto; lia|].
  intros p lambda Prices. pose proof (level_prices_bound pi w t p lambda y Prices F) as B.
  destruct Prices as (_ & _ & One & _).
  rewrite (sum_ext n _ (fun l => s * (lambda l * pi l) +
    if Nat.eqb l a then lambda a * rate w y a - s * (lambda a * pi a) else 0)) in B.
  - rewrite sum_plus, sum_scal, sum_at, One in B by auto. lra.
  - intros l Hl. destruct (Nat.eqb_spec l a) as [->|D]; [ring|].
    replace (rate w y l) with (s * pi l); [ring|]. rewrite <- R by auto. apply sum_ext; intros j Hj. now rewrite Honest.
Qed.

End Cluster.

(* -- Instances -- *)

(* Tables of given numbers, and one GPU of each type. *)
Definition listed (rows : list (list R)) : table := fun l j => nth j (nth l rows []) 0.
Definition one_each : nat -> R := fun _ => 1.

Ltac each i := destruct i as [|[|[|i]]]; try lia.
Ltac calculate := unfold total, rate, used, dot, equal, one_each, listed in *; cbn [sum nth] in *; try lra.
(* The rows of a feasible allocation of two types among two users. *)
Ltac shares_of_two F :=
  let X := fresh "X" in let Cap := fresh "Cap" in pose proof F as (X & Cap);
  pose proof (X 0%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (X 0%nat 1%nat ltac:(lia) ltac:(lia));
  pose proof (X 1%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (X 1%nat 1%nat ltac:(lia) ltac:(lia));
  pose proof (Cap 0%nat ltac:(lia)); pose proof (Cap 1%nat ltac:(lia)); clear X Cap.

(* The two users of eq. (6), with speedups (1, 2) and (1, 5), and one more for three. *)
Definition sample : table := listed [[1; 2]; [1; 5]; [1; 7]].
(* The second user has twice the weight. *)
Definition one_two : nat -> R := fun l => match l with O => 1 | _ => 2 end.

Lemma one_each_nonneg k : forall j, (j < k)%nat -> 0 <= one_each j.
Proof. intros j _. unfold one_each. lra. Qed.

Lemma one_two_weights n : weights n one_two.
Proof. intros [|l] _; cbn; lra. Qed.

Lemma sample_positive n : (n <= 3)%nat -> positive n 2 sample.
Proof. intros N l j Hl Hj. each l; each j; unfold sample; calculate. Qed.

Lemma sample_nonneg n : (n <= 3)%nat -> nonneg n 2 sample.
Proof. intros N. now apply positive_nonneg, sample_positive. Qed.

Lemma sample_cooperative n pi : (n <= 3)%nat -> exists x, cooperative n 2 one_each pi sample x.
Proof. intros N. apply cooperative_exists; [now apply sample_nonneg|apply one_each_nonneg]. Qed.

Lemma sample_noncooperative pi : weights 2 pi -> exists x t, noncooperative 2 2 one_each pi sample x t.
Proof. intros Pi. apply noncooperative_exists; auto; [apply sample_nonneg; lia|apply one_each_nonneg]. Qed.

Example cooperative_envy_free_met : can_be_met cooperative_envy_free.
Proof. intros H. destruct (sample_cooperative 2 one_two) as (x & X); [lia|]. now apply (H _ _ _ _ _ _ X). Qed.

Example cooperative_all_used_met : can_be_met cooperative_all_used.
Proof.
  intros H. destruct (sample_cooperative 2 one_two) as (x & X); [lia|].
  apply (H _ _ _ _ _ _ 0%nat 1%nat (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) X); [lia|lia|]. unfold sample.
  calculate.
Qed.

Example cooperative_sharing_met : can_be_met cooperative_sharing.
Proof.
  intros H. destruct (sample_cooperative 2 one_two) as (x & X); [lia|].
  exact (H _ _ _ _ _ _ (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) X).
Qed.

Example weights_fair_met : can_be_met weights_fair.
Proof. exact cooperative_sharing_met. Qed.

Example cooperative_optimal_met : can_be_met cooperative_optimal.
Proof. intros H. exact (H 2%nat 2%nat one_each one_two sample (sample_nonneg 2 ltac:(lia)) (one_each_nonneg 2)). Qed.

Example largest_sum_pareto_met : can_be_met largest_sum_pareto.
Proof.
  intros H. destruct (largest_sum_exists 2 2 one_each one_two (fun _ => 1) sample (split_by_weight 2 one_each equal))
    as (x & X).
  - apply one_two_weights.
  - apply sample_nonneg; lia.
  - apply split_feasible; [lia|apply equal_weights|apply one_each_nonneg].
  - intros l Hl. each l; unfold rate, split_by_weight, parts, sample; calculate.
  - exact (H _ _ _ _ _ _ _ (one_two_weights 2) X).
Qed.

Example largest_total_pareto_met : can_be_met largest_total_pareto.
Proof.
  intros H. destruct (largest_total_exists 2 2 one_each sample (sample_nonneg 2 ltac:(lia)) (one_each_nonneg 2))
    as (x & F & Max).
  refine (H _ _ _ _ _ _ (equal_weights 2) F _). intros y Fy. specialize (Max y Fy).
  assert (E : forall z, weighted_sum 2 2 equal sample z = total 2 2 sample z).
  { intros z. apply sum_ext; intros; unfold equal; ring. }
  now rewrite !E.
Qed.

Example sharing_only_sharing_met : can_be_met sharing_only_sharing.
Proof.
  intros H. destruct (largest_sharing_total_exists 2 2 one_each one_two sample ltac:(lia) (one_two_weights 2)
    (sample_nonneg 2 ltac:(lia)) (one_each_nonneg 2)) as (x & X).
  exact (H _ _ _ _ _ _ X).
Qed.

(* The optimum of eq. (6): u1 has GPUs of the second type, on which u2 is faster. *)
Definition sample_optimum : table := listed [[1; 1 / 4]; [0; 3 / 4]].

Lemma sample_optimum_feasible : feasible 2 2 one_each sample_optimum.
Proof.
  split; [intros l j Hl Hj; each l; each j; unfold sample_optimum; calculate|].
  intros j Hj. each j; unfold sample_optimum; calculate.
Qed.

Lemma sample_slowest : slowest_with_better 2 2 sample sample_optimum.
Proof.
  split; [intros l j Hl Hj; each l; each j; unfold sample; calculate|]. exists 1%nat, 1%nat.
  split; [lia|split; [lia|]]. unfold sample, sample_optimum. split; calculate.
Qed.

Example slowest_envy_tight_met : can_be_met slowest_envy_tight.
Proof.
  intros H. refine (H _ _ _ _ _ _ (equal_weights 2) (sample_nonneg 2 ltac:(lia)) sample_slowest _).
  split; [apply sample_optimum_feasible|split].
  - intros l i Hl Hi. each l; each i; unfold sample, sample_optimum; calculate.
  - intros y F E. shares_of_two F. pose proof (E 0%nat 1%nat ltac:(lia) ltac:(lia)). clear E.
    unfold sample, sample_optimum in *. calculate.
Qed.

Example slowest_sharing_tight_met : can_be_met slowest_sharing_tight.
Proof.
  intros H. refine (H _ _ _ _ _ _ (equal_weights 2) (sample_nonneg 2 ltac:(lia)) sample_slowest _).
  split; [apply sample_optimum_feasible|split].
  - intros l Hl. each l; unfold sample, sample_optimum; calculate.
  - intros y F E. shares_of_two F. pose proof (E 0%nat ltac:(lia)). clear E.
    unfold sample, sample_optimum in *. calculate.
Qed.

Example noncooperative_pareto_met : can_be_met noncooperative_pareto.
Proof.
  intros H. destruct (sample_noncooperative one_two) as (x & t & X); [apply one_two_weights|].
  exact (H _ _ _ _ _ _ _ (one_two_weights 2) (sample_positive 2 ltac:(lia)) X).
Qed.

(* Claim oef/thm-5.3-cooperative-two: every optimum of cooperative OEF for two users is Pareto-efficient. *)
Theorem cooperative_two_pareto k m pi w x : weights 2 pi -> nonneg 2 k w -> cooperative 2 k m pi w x ->
  pareto_efficient 2 k m w x.
Proof.
  intros Pi W C y Fy All. pose proof (cooperative_sharing 2 k m pi w x Pi W C) as SI. pose proof Fy as (Y & Cap).
  pose proof (Pi 0%nat ltac:(lia)) as P0. pose proof (Pi 1%nat ltac:(lia)) as P1.
  (* the first user takes what y leaves idle *)
  set (z := fun l j => match l with O => m j - y 1%nat j | _ => y l j end).
  assert (Y0 : forall j, (j < k)%nat -> y 0%nat j <= z 0%nat j).
  { intros j Hj. specialize (Cap j Hj). unfold used in Cap. cbn [sum] in Cap. unfold z. lra. }
  assert (R : forall l, (l < 2)%nat -> rate k w x l <= rate k w z l).
  { intros l Hl. apply Rle_trans with (rate k w y l); [auto|]. destruct l as [|l]; [|right; reflexivity].
    apply dot_le_r; auto. }
  assert (Fz : feasible 2 k m z).
  { split; [|intros j _; unfold used; cbn; lra]. intros l j Hl Hj. pose proof (Y l j Hl Hj).
    destruct l as [|l]; [specialize (Y0 j Hj); lra|auto]. }
  assert (Worth : forall l, (l < 2)%nat -> dot k (w l) (z 0%nat) + dot k (w l) (z 1%nat) = dot k (w l) m).
  { intros l _. rewrite <- dot_plus. apply sum_ext; intros; cbn; ring. }
  assert (Ez : envy_free 2 k pi w z).
  { intros l i Hl Hi. specialize (SI l Hl). specialize (R l Hl). specialize (Worth l Hl). cbn [sum] in SI.
    assert (dot k (w l) m * pi l <= (pi 0%nat + pi 1%nat) * rate k w z l).
    { apply Rmult_le_reg_r with (/ (pi 0%nat + pi 1%nat)); [apply Rinv_0_lt_compat; lra|].
      replace ((pi 0%nat + pi 1%nat) * rate k w z l * / (pi 0%nat + pi 1%nat)) with (rate k w z l) by (field; lra).
      replace (0 + pi 0%nat + pi 1%nat) with (pi 0%nat + pi 1%nat) in SI by ring. unfold Rdiv in SI. lra. }
    unfold rate in *. destruct l as [|[|]], i as [|[|]]; try lia; try lra; nra. }
  pose proof (proj2 (proj2 C) z Fz Ez) as T. unfold total in T.
  intros l Hl. pose proof (sum_le_eq 2 _ _ R T l Hl) as E.
  assert (rate k w y l <= rate k w z l).
  { destruct l as [|l]; [|right; reflexivity]. apply dot_le_r; auto. }
  specialize (All l Hl). lra.
Qed.

Example cooperative_two_pareto_met : can_be_met cooperative_two_pareto.
Proof.
  intros H. destruct (sample_cooperative 2 one_two) as (x & X); [lia|].
  exact (H _ _ _ _ _ (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) X).
Qed.

(* Two types: no user with GPUs of the first type has a larger ratio than a user with GPUs of the second type. *)
Lemma two_types_efficient n m w x : positive n 2 w -> feasible n 2 m x -> (forall j, (j < 2)%nat -> used n x j = m j) ->
  (forall l h, (l < n)%nat -> (h < n)%nat -> 0 < x l 0%nat -> 0 < x h 1%nat ->
    w l 1%nat * w h 0%nat <= w h 1%nat * w l 0%nat) -> pareto_efficient n 2 m w x.
Proof.
  intros W F Sold Order. set (ratio := fun l => w l 1%nat / w l 0%nat).
  set (owners := fun j => filter (fun l => if Rlt_dec 0 (x l j) then true else false) (seq 0 n)).
  assert (Own : forall l j, In l (owners j) <-> (l < n)%nat /\ 0 < x l j).
  { intros l j. unfold owners. rewrite filter_In, in_seq.
    destruct (Rlt_dec 0 (x l j)); split; intros (A & B); split; auto; try lia; discriminate. }
  assert (P : forall l j, (l < n)%nat -> (j < 2)%nat -> 0 < w l j) by exact W.
  destruct (room_above n ratio 0) as (s & S & Least); [intros l Hl; apply Rdiv_lt_0_compat; apply W; auto|].
  destruct (between (s :: map ratio (owners 0%nat)) (map ratio (owners 1%nat))) as (price & Low & High).
  { intros a b A B. apply in_map_iff in B as (h & <- & B). apply Own in B as (Hh & B).
    destruct A as [<-|A]; [now apply Least|]. apply in_map_iff in A as (l & <- & A). apply Own in A as (Hl & A).
    pose proof (P l 0%nat Hl ltac:(lia)). pose proof (P h 0%nat Hh ltac:(lia)).
    apply Rmult_le_reg_r with (w l 0%nat * w h 0%nat); [now apply Rmult_lt_0_compat|].
    unfold ratio.
    replace (w l 1%nat / w l 0%nat * (w l 0%nat * w h 0%nat)) with (w l 1%nat * w h 0%nat) by (field; lra).
    replace (w h 1%nat / w h 0%nat * (w l 0%nat * w h 0%nat)) with (w h 1%nat * w l 0%nat) by (field; lra).
    now apply Order. }
  assert (0 < price) by (specialize (Low s (or_introl eq_refl)); lra).
  set (p := fun j => match j with O => 1 | _ => price end).
  assert (Q : forall l, (l < n)%nat -> ratio l * w l 0%nat = w l 1%nat /\ w l 1%nat / price * price = w l 1%nat).
  { intros l Hl. pose proof (P l 0%nat Hl ltac:(lia)). split; unfold ratio; field; lra. }
  apply (priced_efficient n 2 m w x p (fun l => Rmax (w l 0%nat) (w l 1%nat / price))); auto.
  - intros [|j] _; cbn; lra.
  - intros j Hj. now rewrite Sold.
  - intros l Hl. apply Rlt_le_trans with (w l 0%nat); [apply P; auto|apply Rmax_l].
  - intros l j Hl Hj. destruct (Q l Hl) as (_ & E). destruct j as [|[|]]; [| |lia]; cbn.
    + rewrite Rmult_1_r. apply Rmax_l.
    + rewrite <- E at 1. apply Rmult_le_compat_r; [lra|apply Rmax_r].
  - intros l Hl. destruct F as (X & _). pose proof (X l 0%nat Hl ltac:(lia)) as X0.
    pose proof (X l 1%nat Hl ltac:(lia)) as X1.
    pose proof (P l 0%nat Hl ltac:(lia)) as W0. destruct (Q l Hl) as (E1 & E2).
    unfold rate, dot; cbn [sum p]. set (b := Rmax (w l 0%nat) (w l 1%nat / price)).
    assert (A : b * x l 0%nat = w l 0%nat * x l 0%nat).
    { destruct X0 as [X0|<-]; [|ring]. f_equal. apply Rmax_left.
      assert (ratio l <= price) by (apply Low; right; apply in_map, Own; auto).
      apply Rmult_le_reg_r with price; [auto|]. rewrite E2, <- E1. nra. }
    assert (B : b * price * x l 1%nat = w l 1%nat * x l 1%nat).
    { destruct X1 as [X1|<-]; [|ring]. f_equal. rewrite <- E2. f_equal. apply Rmax_right.
      assert (price <= ratio l) by (apply High, in_map, Own; auto).
      apply Rmult_le_reg_r with price; [auto|]. rewrite E2, <- E1. nra. }
    lra.
Qed.

(* Three users in the order a, b, c. *)
Lemma sum_three f a b c : (a < 3)%nat -> (b < 3)%nat -> (c < 3)%nat -> a <> b -> a <> c -> b <> c ->
  sum 3 f = f a + f b + f c.
Proof.
  intros A B C AB AC BC. cbn. destruct a as [|[|[|]]], b as [|[|[|]]], c as [|[|[|]]]; try lia; ring.
Qed.

Lemma sorted_three (before : nat -> nat -> Prop) : (forall i j, before i j \/ before j i) ->
  exists a b c, ((a < 3)%nat /\ (b < 3)%nat /\ (c < 3)%nat /\ a <> b /\ a <> c /\ b <> c) /\ before a b /\ before b c.
Proof.
  intros T. destruct (T 0%nat 1%nat), (T 1%nat 2%nat), (T 0%nat 2%nat);
  [exists 0%nat, 1%nat, 2%nat|exists 0%nat, 1%nat, 2%nat|exists 0%nat, 2%nat, 1%nat|exists 2%nat, 0%nat, 1%nat|
   exists 1%nat, 0%nat, 2%nat|exists 1%nat, 2%nat, 0%nat|exists 2%nat, 1%nat, 0%nat|exists 2%nat, 1%nat, 0%nat];
  repeat split; auto; lia.
Qed.

(* Envy-free allocations in steps: users b and c share y1 of the second type beyond what a has, c has y2 more. *)
Lemma three_in_steps m w r x a b c y0 y1 y2 : (forall l, w l 1%nat = r l) ->
  (a < 3)%nat /\ (b < 3)%nat /\ (c < 3)%nat /\ a <> b /\ a <> c /\ b <> c ->
  (forall l, (l < 3)%nat -> w l 0%nat = 1) -> 0 <= r a -> r a <= r b -> r b <= r c ->
  cooperative 3 2 m equal w x -> 0 <= y0 -> 0 <= y1 -> 0 <= y2 -> y0 + y1 + y2 = m 1%nat ->
  r a / 2 * y1 + 2 * r b * y2 <= m 0%nat ->
  m 0%nat + (r a + r b + r c) / 3 * y0 + (r b + r c) / 2 * y1 + r c * y2 <= total 3 2 w x.
Proof.
  intros Second (A & B & C & AB & AC & BC) One Ra Rab Rbc (_ & _ & Max) Y0 Y1 Y2 All Cost.
  set (left := (m 0%nat - r a / 2 * y1 - 2 * r b * y2) / 3).
  set (of_three := fun (u v t : R) l => if Nat.eqb l a then u else if Nat.eqb l b then v else t).
  assert (At_a : forall u v t, of_three u v t a = u) by (intros; unfold of_three; now rewrite Nat.eqb_refl).
  assert (At_b : forall u v t, of_three u v t b = v).
  { intros; unfold of_three. rewrite Nat.eqb_refl. destruct (Nat.eqb_spec b a); [congruence|reflexivity]. }
  assert (At_c : forall u v t, of_three u v t c = t).
  { intros; unfold of_three. destruct (Nat.eqb_spec c a), (Nat.eqb_spec c b); congruence. }
  set (z := fun l j => match j with
    | O => of_three (left + r b * y2 + r a / 2 * y1) (left + r b * y2) left l
    | _ => of_three (y0 / 3) (y0 / 3 + y1 / 2) (y0 / 3 + y1 / 2 + y2) l end).
  assert (User : forall l, (l < 3)%nat -> l = a \/ l = b \/ l = c) by lia.
  assert (Worth : forall l i, (l < 3)%nat -> dot 2 (w l) (z i) = z i 0%nat + r l * z i 1%nat).
  { intros l i Hl. unfold dot. cbn [sum]. rewrite One, Second by auto. ring. }
  assert (0 <= left) by (unfold left; lra).
  assert (P1 : 0 <= r a * y1) by now apply Rmult_le_pos.
  assert (P2 : r a * y1 <= r b * y1) by now apply Rmult_le_compat_r.
  assert (P3 : r b * y1 <= r c * y1) by now apply Rmult_le_compat_r.
  assert (P4 : 0 <= r a * y2) by now apply Rmult_le_pos.
  assert (P5 : r a * y2 <= r b * y2) by now apply Rmult_le_compat_r.
  assert (P6 : r b * y2 <= r c * y2) by now apply Rmult_le_compat_r.
  assert (T : total 3 2 w z = m 0%nat + (r a + r b + r c) / 3 * y0 + (r b + r c) / 2 * y1 + r c * y2).
  { unfold total. rewrite (sum_three _ a b c) by auto. unfold rate. rewrite !Worth by auto. cbn [z].
    rewrite !At_a, !At_b, !At_c. unfold left. field. }
  rewrite <- T. apply Max.
  - split.
    + intros l j Hl Hj. destruct (User l Hl) as [->|[->| ->]], j as [|j]; cbn [z];
      rewrite ?At_a, ?At_b, ?At_c; lra.
    + intros j Hj. right. unfold used. rewrite (sum_three _ a b c) by auto. destruct j as [|[|]]; [| |lia]; cbn [z];
      rewrite !At_a, !At_b, !At_c; [unfold left; field|rewrite <- All; field].
  - intros l i Hl Hi. unfold rate, equal. rewrite !Worth by auto.
    destruct (User l Hl) as [->|[->| ->]], (User i Hi) as [->|[->| ->]]; cbn [z];
    rewrite ?At_a, ?At_b, ?At_c; lra.
Qed.

(* Claim oef/thm-5.3-cooperative-three: every optimum of cooperative OEF for three users and two types is
   Pareto-efficient, all speedups positive (relative to the first type, section 2.3: w_l^1 = 1). *)
Theorem cooperative_three_pareto m w x : positive 3 2 w -> (forall l, (l < 3)%nat -> w l 0%nat = 1) ->
  cooperative 3 2 m equal w x -> pareto_efficient 3 2 m w x.
Proof.
  intros W One C. pose proof C as ((X & Cap) & EF & _).
  assert (Sold : forall j, (j < 2)%nat -> used 3 x j = m j).
  { intros j Hj. apply (cooperative_all_used 3 2 m equal w x 0%nat); auto.
    - apply equal_weights.
    - now apply positive_nonneg. }
  apply two_types_efficient; [auto|now split|auto|].
  intros h l Hh Hl Ph Ql. rewrite !One by auto. rewrite !Rmult_1_r.
  destruct (Rle_lt_dec (w h 1%nat) (w l 1%nat)) as [|Bad]; auto. exfalso.
  set (r := fun l => w l 1%nat) in *. set (p := fun l => x l 0%nat) in *. set (q := fun l => x l 1%nat) in *.
  change (0 < p h) in Ph. change (0 < q l) in Ql. change (r l < r h) in Bad.
  assert (Envy : forall l i, (l < 3)%nat -> (i < 3)%nat -> p i + r l * q i <= p l + r l * q l).
  { intros e o He Ho. specialize (EF e o He Ho). unfold rate, dot, equal in EF. cbn [sum] in EF.
    rewrite One in EF by auto. unfold p, q, r. lra. }
  destruct (sorted_three (fun i j => r i < r j \/ r i = r j /\ q i <= q j)) as (a & b & c & Abc & Ab & Bc).
  { intros i j. destruct (Rtotal_order (r i) (r j)) as [|[E|]]; auto. destruct (Rle_dec (q i) (q j)); [auto|].
    right; right; split; auto; lra. }
  pose proof Abc as (A & B & C3 & AB & AC & BC).
  assert (More : forall i j, (i < 3)%nat -> (j < 3)%nat -> r i < r j \/ r i = r j /\ q i <= q j ->
    r i <= r j /\ q i <= q j).
  { intros i j Hi Hj [L|(-> & L)]; [|lra]. split; [lra|]. pose proof (Envy i j Hi Hj). pose proof (Envy j i Hj Hi).
    nra. }
  destruct (More a b A B Ab) as (Rab & Qab). destruct (More b c B C3 Bc) as (Rbc & Qbc).
  assert (Ra : 0 < r a) by (apply W; auto). assert (Pc : 0 <= p c) by (apply X; auto).
  assert (Qa : 0 <= q a) by (apply X; auto).
  pose proof (Sold 0%nat ltac:(lia)) as S0. pose proof (Sold 1%nat ltac:(lia)) as S1. unfold used in S0, S1.
  rewrite (sum_three _ a b c) in S0 by auto. rewrite (sum_three _ a b c) in S1 by auto. fold (p a) (p b) (p c) in S0.
  fold (q a) (q b) (q c) in S1.
  assert (T : total 3 2 w x = m 0%nat + r a * q a + r b * q b + r c * q c).
  { unfold total. rewrite (sum_three _ a b c) by auto. unfold rate, dot. cbn [sum]. rewrite !One by auto.
    rewrite <- S0. unfold p, q, r. ring. }
  pose proof (Envy a b A B) as Eab. pose proof (Envy b c B C3) as Ebc. pose proof (Envy c b C3 B) as Ecb.
  assert (Steps := fun y0 y1 y2 => three_in_steps m w r x a b c y0 y1 y2 (fun l => eq_refl) Abc One).
  assert (Cases : l = a /\ h = b \/ (l = a \/ l = b) /\ h = c).
  { assert (Ul : l = a \/ l = b \/ l = c) by lia. assert (Uh : h = a \/ h = b \/ h = c) by lia.
    destruct Ul as [->|[->| ->]], Uh as [->|[->| ->]]; auto; exfalso; lra. }
  destruct (Req_dec (p c) 0) as [Zero|Some].
  - (* c has none of the first type: then b has some, and both others and c move to the middle step *)
    destruct Cases as [(-> & ->)|(_ & ->)]; [|lra].
    assert (0 < q c - q b) by nra.
    destruct (small (3 * q a / (2 * r b)) (q c - q b) (r a / 2)) as (e & E & E1 & E2);
      [apply Rdiv_lt_0_compat; lra|lra|lra|].
    assert (E3 : 2 * r b * e <= 3 * q a).
    { apply Rmult_le_compat_l with (r := 2 * r b) in E1; [|lra].
      replace (2 * r b * (3 * q a / (2 * r b))) with (3 * q a) in E1 by (field; lra). exact E1. }
    assert (0 < e * r a) by now apply Rmult_lt_0_compat. assert (0 < e * r b) by (apply Rmult_lt_0_compat; lra).
    assert (N : m 0%nat + (r a + r b + r c) / 3 * (3 * q a - (2 * r b - r a / 2) * e) +
      (r b + r c) / 2 * (2 * (q b - q a) + 2 * r b * e) + r c * (q c - q b - r a / 2 * e) <= total 3 2 w x).
    { apply Steps; auto; lra. }
    rewrite T in N.
    assert (Gain : 0 < e * ((r b - r a) * (r a / 6 + (r b - r a) / 3 + r c / 3))).
    { apply Rmult_lt_0_compat; [auto|]. apply Rmult_lt_0_compat; lra. }
    nra.
  - (* c has some of the first type: some of the second type moves from another step to the last *)
    assert (0 < p c) by lra.
    assert (L : r l < r c /\ (l = a \/ l = b)) by (destruct Cases as [(-> & ->)|([-> | ->] & ->)]; split; auto; lra).
    destruct L as (Lc & L).
    assert (Move : 0 < q a /\ r a < r c \/ q a = 0 /\ 0 < q b /\ r b < r c).
    { destruct L as [->| ->]; [left; lra|]. destruct Qa as [Qa|Qa]; [left; lra|right; lra]. }
    destruct Move as [(Q & R)|(Q0 & Q & R)].
    + destruct (small (3 * q a) (3 * p c) (2 * r b)) as (e & E & E1 & E2); [lra|lra|lra|].
      assert (N : m 0%nat + (r a + r b + r c) / 3 * (3 * q a - e) + (r b + r c) / 2 * (2 * (q b - q a)) +
        r c * (q c - q b + e) <= total 3 2 w x) by (apply Steps; auto; lra || nra).
      rewrite T in N. assert (0 < e * (r c - (r a + r b + r c) / 3)) by (apply Rmult_lt_0_compat; lra). nra.
    + destruct (small (2 * q b) (3 * p c) (2 * r b)) as (e & E & E1 & E2); [lra|lra|lra|].
      assert (N : m 0%nat + (r a + r b + r c) / 3 * 0 + (r b + r c) / 2 * (2 * q b - e) +
        r c * (q c - q b + e) <= total 3 2 w x) by (apply Steps; auto; lra || nra).
      rewrite T, Q0 in N. assert (0 < e * (r c - (r b + r c) / 2)) by (apply Rmult_lt_0_compat; lra). nra.
Qed.

Example cooperative_three_pareto_met : can_be_met cooperative_three_pareto.
Proof.
  intros H. destruct (sample_cooperative 3 equal) as (x & X); [lia|].
  refine (H _ _ _ (sample_positive 3 ltac:(lia)) _ X). intros l Hl. each l; reflexivity.
Qed.

(* -- Section 4.2.3: weights, and section 4.2.4: job types -- *)

(* Claim oef/weights-twice: under non-cooperative OEF a user of twice the weight has twice the throughput. *)
Theorem twice_the_weight n k m pi w x t a b : noncooperative n k m pi w x t -> (a < n)%nat -> (b < n)%nat ->
  pi a = 2 * pi b -> rate k w x a = 2 * rate k w x b.
Proof. intros ((_ & R) & _) Ha Hb E. rewrite !R, E by auto. ring. Qed.

Example twice_the_weight_met : can_be_met twice_the_weight.
Proof.
  intros H. destruct (sample_noncooperative one_two) as (x & t & X); [apply one_two_weights|].
  apply (H _ _ _ _ _ _ _ 1%nat 0%nat X); [lia|lia|]. cbn. lra.
Qed.

(* N virtual users: copies of users, or their job types. Virtual user i is one of user (owner i). *)
Section Owners.
Variables n k : nat.
Variable m : nat -> R.
Variable N : nat.
Variable owner : nat -> nat.
Hypothesis owned : forall i, (i < N)%nat -> (owner i < n)%nat.

(* The sum over the virtual users of user a. *)
Definition sum_of (a : nat) (f : nat -> R) : R := sum N (fun i => if Nat.eqb a (owner i) then f i else 0).
Definition count (a : nat) : R := sum_of a (fun _ => 1).
(* The GPUs of all virtual users of each user. *)
Definition together (y : table) : table := fun a j => sum_of a (fun i => y i j).

Lemma sum_of_all f : sum n (fun a => sum_of a f) = sum N f.
Proof.
  unfold sum_of. rewrite sum_swap. apply sum_ext; intros i Hi. now apply (sum_at n (owner i) (f i)), owned.
Qed.

Lemma sum_of_le a f g : (forall i, (i < N)%nat -> owner i = a -> f i <= g i) -> sum_of a f <= sum_of a g.
Proof. intros H. apply sum_le; intros i Hi. destruct (Nat.eqb_spec a (owner i)); [auto|lra]. Qed.

Lemma sum_of_ext a f g : (forall i, (i < N)%nat -> owner i = a -> f i = g i) -> sum_of a f = sum_of a g.
Proof. intros H. apply Rle_antisym; apply sum_of_le; intros; rewrite H; auto; lra. Qed.

Lemma sum_of_scal a c f : sum_of a (fun i => c * f i) = c * sum_of a f.
Proof. unfold sum_of. rewrite <- sum_scal. apply sum_ext; intros i _. destruct Nat.eqb; ring. Qed.

Lemma sum_of_const a c : sum_of a (fun _ => c) = c * count a.
Proof. unfold count. rewrite <- sum_of_scal. apply sum_of_ext; intros; ring. Qed.

Lemma sum_of_nonneg a f : (forall i, (i < N)%nat -> owner i = a -> 0 <= f i) -> 0 <= sum_of a f.
Proof. intros H. rewrite <- (Rmult_0_l (count a)), <- sum_of_const. now apply sum_of_le. Qed.

Lemma dot_together v y a : dot k v (together y a) = sum_of a (fun i => dot k v (y i)).
Proof.
  unfold sum_of, together, sum_of, dot.
  transitivity (sum k (fun j => sum N (fun i => if Nat.eqb a (owner i) then v j * y i j else 0))).
  - apply sum_ext; intros j _. rewrite <- sum_scal. apply sum_ext; intros i _. destruct Nat.eqb; ring.
  - rewrite sum_swap. apply sum_ext; intros i _. destruct Nat.eqb; [reflexivity|]. apply sum_zero; auto.
Qed.

Lemma used_together y j : used n (together y) j = used N y j.
Proof. apply sum_of_all. Qed.

Lemma together_feasible y : feasible N k m y -> feasible n k m (together y).
Proof.
  intros (Y & Cap). split; [|intros j Hj; rewrite used_together; auto].
  intros a j _ Hj. apply sum_of_nonneg; intros i Hi _. auto.
Qed.

(* Copies: the weight of a user is proportional to its number of copies. *)
Section Copies.
Variables (pi : nat -> R) (scale : R).
Hypothesis scale_positive : 0 < scale.
Hypothesis copies : forall a, (a < n)%nat -> 0 < count a /\ pi a = scale * count a.

(* Every copy has its part of the GPUs of the user. *)
Definition apart (x : table) : table := fun i j => / count (owner i) * x (owner i) j.

Lemma sum_of_apart a f : (a < n)%nat -> sum_of a (fun i => / count (owner i) * f (owner i)) = f a.
Proof.
  intros Ha. rewrite (sum_of_ext a _ (fun _ => / count a * f a)) by (intros i _ ->; reflexivity).
  rewrite sum_of_const. field. destruct (copies a Ha). lra.
Qed.

Lemma apart_feasible x : feasible n k m x -> feasible N k m (apart x).
Proof.
  intros (X & Cap). split.
  - intros i j Hi Hj. specialize (owned i Hi). apply Rmult_le_pos; [|auto].
    left. apply Rinv_0_lt_compat. now apply copies.
  - intros j Hj. rewrite <- used_together. apply Rle_trans with (used n x j); [|auto]. right.
    apply sum_ext; intros a Ha. now apply (sum_of_apart a (fun a => x a j)).
Qed.

Lemma dot_apart v x i : dot k v (apart x i) = / count (owner i) * dot k v (x (owner i)).
Proof. apply dot_scal. Qed.

Lemma copies_total w x y : cooperative n k m pi w x -> cooperative N k m equal (fun i => w (owner i)) y ->
  total n k w x = total N k (fun i => w (owner i)) y.
Proof.
  intros (Fx & Ex & Mx) (Fy & Ey & My). set (v := fun i => w (owner i)) in *.
  assert (Tx : total N k v (apart x) = total n k w x).
  { unfold total. rewrite <- sum_of_all. apply sum_ext; intros a Ha. rewrite <- (sum_of_apart a (rate k w x)) by auto.
    apply sum_of_ext; intros i _ _. apply dot_apart. }
  assert (Ty : total n k w (together y) = total N k v y).
  { unfold total. rewrite <- sum_of_all. apply sum_ext; intros a Ha. unfold rate. rewrite dot_together.
    apply sum_of_ext; intros i _ <-. reflexivity. }
  apply Rle_antisym.
  - rewrite <- Tx. apply My; [now apply apart_feasible|]. intros i h Hi Hh. unfold rate, equal, v. rewrite !dot_apart.
    destruct (copies _ (owned i Hi)) as (Pi & Wi), (copies _ (owned h Hh)) as (Ph & Wh).
    specialize (Ex _ _ (owned i Hi) (owned h Hh)). rewrite Wi, Wh in Ex. unfold rate in Ex.
    apply Rmult_le_reg_l with (scale * count (owner i) * count (owner h)); [repeat apply Rmult_lt_0_compat; auto|].
    field_simplify; lra.
  - rewrite <- Ty. apply Mx; [now apply together_feasible|]. intros a b Ha Hb.
    destruct (copies a Ha) as (Pa & ->), (copies b Hb) as (Pb & ->). unfold rate. rewrite !dot_together.
    assert (E : count a * sum_of b (fun i => dot k (w a) (y i)) <= count b * sum_of a (fun i => dot k (w a) (y i))).
    { rewrite (Rmult_comm (count b)), <- sum_of_const, <- sum_of_scal. apply sum_of_le; intros h Hh Oh.
      rewrite Rmult_comm, <- sum_of_const. apply sum_of_le; intros i Hi Oi. specialize (Ey i h Hi Hh).
      unfold equal, rate, v in Ey. rewrite Oi in Ey. lra. }
    rewrite !Rmult_assoc. apply Rmult_le_compat_l; lra.
Qed.

Lemma copies_level w x t y s : noncooperative n k m pi w x t ->
  noncooperative N k m equal (fun i => w (owner i)) y s -> s = scale * t.
Proof.
  intros ((Fx & Rx) & Mx) ((Fy & Ry) & My). set (v := fun i => w (owner i)) in *. apply Rle_antisym.
  - enough (s / scale <= t).
    { apply Rmult_le_compat_l with (r := scale) in H; [|lra].
      replace (scale * (s / scale)) with s in H by (field; lra). exact H. }
    apply (Mx (together y)). split; [now apply together_feasible|]. intros a Ha. destruct (copies a Ha) as (Pa & ->).
    unfold rate. rewrite dot_together, (sum_of_ext a _ (fun _ => s)).
    + rewrite sum_of_const. field; lra.
    + intros i Hi <-. specialize (Ry i Hi). unfold equal in Ry. rewrite Rmult_1_r in Ry. exact Ry.
  - apply (My (apart x)). split; [now apply apart_feasible|]. intros i Hi. unfold rate, equal, v. rewrite dot_apart.
    change (dot k (w (owner i)) (x (owner i))) with (rate k w x (owner i)). rewrite Rx by auto.
    destruct (copies _ (owned i Hi)) as (Pi & ->). field. lra.
Qed.

End Copies.

(* Job types: a user with weight pi_a divides it evenly among its types. *)
Section JobTypes.
Variable pi : nat -> R.
Hypothesis Pi : weights n pi.
Hypothesis some_type : forall a, (a < n)%nat -> 0 < count a.

Definition type_weight (i : nat) : R := pi (owner i) / count (owner i).

Lemma type_weights : weights N type_weight.
Proof. intros i Hi. apply Rdiv_lt_0_compat; [apply Pi|apply some_type]; auto. Qed.

Lemma sum_of_type_weight a : (a < n)%nat -> sum_of a type_weight = pi a.
Proof.
  intros Ha. rewrite (sum_of_ext a _ (fun _ => pi a / count a)) by (intros i _ <-; reflexivity).
  rewrite sum_of_const. field. specialize (some_type a Ha). lra.
Qed.

(* The throughput of user a with GPUs g, each type of GPU split evenly among its job types. *)
Definition split_worth (w : table) (a : nat) (g : nat -> R) : R :=
  sum_of a (fun i => dot k (w i) (fun j => g j / count a)).
Definition user_rate (w x : table) (a : nat) : R := sum_of a (rate k w x).

Lemma split_worth_scaled w a g : split_worth w a g = / count a * sum_of a (fun i => dot k (w i) g).
Proof.
  unfold split_worth. rewrite <- sum_of_scal. apply sum_of_ext; intros i _ _. rewrite <- dot_scal.
  apply sum_ext; intros; unfold Rdiv; ring.
Qed.

Lemma types_envy_free w x a b : cooperative N k m type_weight w x -> (a < n)%nat -> (b < n)%nat ->
  pi a * split_worth w a (together x b) <= pi b * user_rate w x a.
Proof.
  intros (_ & EF & _) Ha Hb. rewrite split_worth_scaled. unfold user_rate. rewrite <- !sum_of_scal.
  apply sum_of_le; intros i Hi Oi. rewrite dot_together.
  rewrite <- (sum_of_type_weight b Hb), (Rmult_comm (sum_of b _)), <- !sum_of_scal.
  apply sum_of_le; intros h Hh _. specialize (EF i h Hi Hh). unfold type_weight in EF at 1. rewrite Oi in EF.
  unfold Rdiv in EF. lra.
Qed.

Lemma job_type_sharing w x i : nonneg N k w -> cooperative N k m type_weight w x -> (i < N)%nat ->
  dot k (w i) m * (type_weight i / sum n pi) <= rate k w x i.
Proof.
  intros W C Hi. pose proof (cooperative_sharing N k m _ w x type_weights W C i Hi) as S.
  rewrite <- sum_of_all, (sum_ext n _ pi) in S by (intros; now apply sum_of_type_weight). exact S.
Qed.

Lemma types_sharing w x a : nonneg N k w -> cooperative N k m type_weight w x -> (a < n)%nat ->
  pi a / sum n pi * split_worth w a m <= user_rate w x a.
Proof.
  intros W C Ha. rewrite split_worth_scaled. unfold user_rate. rewrite <- !sum_of_scal. apply sum_of_le; intros i Hi Oi.
  pose proof (job_type_sharing w x i W C Hi) as S. unfold type_weight in S. rewrite Oi in S. unfold Rdiv in *. lra.
Qed.

End JobTypes.

(* -- Theorem 5.4: non-cooperative OEF and misreports -- *)

(* Users may report several job types that divide their weight; those of the liars have speedups of at least the true
   ones. Not all liars gain: together, the GPUs of their types are worth more to some liar than before. *)
Lemma over_reports pi rho w r x t y s liar : weights n pi -> nonneg n k w ->
  (forall a, (a < n)%nat -> sum_of a rho = pi a) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> w (owner i) j <= r i j) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> ~ liar (owner i) -> r i j = w (owner i) j) ->
  noncooperative n k m pi w x t -> noncooperative N k m rho r y s -> (exists a, (a < n)%nat /\ liar a) ->
  ~ forall a, (a < n)%nat -> liar a -> rate k w x a < rate k w (together y) a.
Proof.
  intros Pi W Rho More Honest ((Fx & Rx) & Mx) ((Fy & Ry) & _) (b & Hb & Lb) Gain.
  assert (T : forall a, rate k w (together y) a = sum_of a (fun i => dot k (w a) (y i)))
    by (intros; apply dot_together).
  assert (S : forall a, (a < n)%nat -> s * pi a = sum_of a (rate k r y)).
  { intros a Ha. rewrite <- Rho, <- sum_of_scal by auto. apply sum_of_ext; intros i Hi _. symmetry. now apply Ry. }
  assert (Below : forall a, (a < n)%nat -> rate k w (together y) a <= s * pi a).
  { intros a Ha. rewrite T, S by auto. apply sum_of_le; intros i Hi <-. apply dot_le; [auto|]. intros j Hj.
    now apply Fy. }
  assert (Lt : t < s).
  { specialize (Gain b Hb Lb). rewrite Rx in Gain by auto. specialize (Below b Hb). specialize (Pi b Hb). nra. }
  destruct (room_above n (fun a => rate k w (together y) a / pi a) t) as (u & Lu & Uu).
  { intros a Ha. specialize (Pi a Ha). apply Rmult_lt_reg_r with (pi a); [auto|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    destruct (classic (liar a)) as [L|L]; [rewrite <- Rx; auto|].
    replace (rate k w (together y) a) with (s * pi a); [now apply Rmult_lt_compat_r|].
    rewrite T, S by auto. apply sum_of_ext; intros i Hi <-. apply sum_ext; intros j Hj. now rewrite Honest. }
  assert (T0 : 0 <= t) by (apply (level_nonneg n k m pi w x); auto; [lia|now split]).
  destruct (scale_down n k m pi w (together y) u) as (z & Z); auto; [now apply together_feasible|lra| |].
  - intros a Ha. specialize (Uu a Ha). specialize (Pi a Ha). apply Rmult_le_compat_r with (r := pi a) in Uu; [|lra].
    replace (rate k w (together y) a / pi a * pi a) with (rate k w (together y) a) in Uu by (field; lra). exact Uu.
  - specialize (Mx z u Z). lra.
Qed.

Lemma false_types_lose pi rho w r x t y s a : weights n pi -> nonneg n k w ->
  (forall b, (b < n)%nat -> sum_of b rho = pi b) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> owner i = a -> w a j <= r i j) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> owner i <> a -> r i j = w (owner i) j) ->
  noncooperative n k m pi w x t -> noncooperative N k m rho r y s -> (a < n)%nat ->
  rate k w (together y) a <= rate k w x a.
Proof.
  intros Pi W Rho More Honest X Y Ha. apply Rnot_lt_le. intros Gain.
  refine (over_reports pi rho w r x t y s (fun b => b = a) Pi W Rho _ Honest X Y _ _).
  - intros i j Hi Hj. destruct (Nat.eq_dec (owner i) a) as [E|E]; [rewrite E; auto|rewrite Honest; auto; lra].
  - now exists a.
  - now intros b _ ->.
Qed.

End Owners.

(* Claim oef/weights-cooperative: cooperative OEF with weights has the same total as with copies of every user,
   in number its weight; weights may be rational: integer numbers of copies times a scale. *)
Theorem weights_as_copies n k m N owner pi scale w x y : (forall i, (i < N)%nat -> (owner i < n)%nat) -> 0 < scale ->
  (forall a, (a < n)%nat -> 0 < count N owner a /\ pi a = scale * count N owner a) ->
  cooperative n k m pi w x -> cooperative N k m equal (fun i => w (owner i)) y ->
  total n k w x = total N k (fun i => w (owner i)) y.
Proof. intros O S C. now apply (copies_total n k m N owner O pi scale S C). Qed.

(* Claim oef/weights-noncooperative: non-cooperative OEF with weights has the same level as with copies of every
   user, in number its weight (scale 1), and the level times the scale otherwise. *)
Theorem level_as_copies n k m N owner pi scale w x t y s : (forall i, (i < N)%nat -> (owner i < n)%nat) -> 0 < scale ->
  (forall a, (a < n)%nat -> 0 < count N owner a /\ pi a = scale * count N owner a) ->
  noncooperative n k m pi w x t -> noncooperative N k m equal (fun i => w (owner i)) y s -> s = scale * t.
Proof. intros O S C. now apply (copies_level n k m N owner O pi scale S C). Qed.

(* Claim oef/job-types-split-envy: under cooperative OEF users with several job types do not envy each other's GPUs
   if those are split evenly among the job types; with weights pi_b w_a.x_a >= pi_a w_a.x_b. *)
Theorem job_types_envy_free n k m N owner pi w x a b : (forall c, (c < n)%nat -> 0 < count N owner c) ->
  cooperative N k m (type_weight N owner pi) w x -> (a < n)%nat -> (b < n)%nat ->
  pi a * split_worth k N owner w a (together N owner x b) <= pi b * user_rate k N owner w x a.
Proof. intros Some. now apply (types_envy_free n k m N owner pi Some). Qed.

(* Claim oef/job-types-split-sharing: under cooperative OEF users with several job types have at least the throughput
   of their part of the cluster, split evenly among the job types. *)
Theorem job_types_sharing n k m N owner pi w x a : (forall i, (i < N)%nat -> (owner i < n)%nat) -> weights n pi ->
  (forall c, (c < n)%nat -> 0 < count N owner c) -> nonneg N k w -> cooperative N k m (type_weight N owner pi) w x ->
  (a < n)%nat -> pi a / sum n pi * split_worth k N owner w a m <= user_rate k N owner w x a.
Proof. intros O Pi Some. now apply (types_sharing n k m N owner O pi Pi Some). Qed.

(* Claim oef/weights-fair (2 of 2): cooperative OEF with job types, virtual users that divide the weight of their user
   evenly, is envy-free and gives the sharing incentive, both in proportion to the weights. *)
Theorem job_types_fair n k m N owner pi w x : (forall i, (i < N)%nat -> (owner i < n)%nat) -> weights n pi ->
  (forall c, (c < n)%nat -> 0 < count N owner c) -> nonneg N k w -> cooperative N k m (type_weight N owner pi) w x ->
  envy_free N k (type_weight N owner pi) w x /\
  forall i, (i < N)%nat -> dot k (w i) m * (pi (owner i) / count N owner (owner i) / sum n pi) <= rate k w x i.
Proof.
  intros O Pi Some W C. split; [apply C|]. intros i Hi. now apply (job_type_sharing n k m N owner O pi Pi Some).
Qed.

(* Claim oef/false-types-over: a user a that divides its weight among its true job type and false types, w'' >= w_a,
   does not gain under non-cooperative OEF; it runs its jobs on the GPUs of all its types. *)
Theorem false_types n k m N owner pi rho w r x t y s a : (forall i, (i < N)%nat -> (owner i < n)%nat) ->
  weights n pi -> nonneg n k w -> (forall b, (b < n)%nat -> sum_of N owner b rho = pi b) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> owner i = a -> w a j <= r i j) ->
  (forall i j, (i < N)%nat -> (j < k)%nat -> owner i <> a -> r i j = w (owner i) j) ->
  noncooperative n k m pi w x t -> noncooperative N k m rho r y s -> (a < n)%nat ->
  rate k w (together N owner y) a <= rate k w x a.
Proof. intros O. now apply (false_types_lose n k m N owner O). Qed.

(* Three virtual users of two users: two of the second one, or two of the first one. *)
Definition second_twice (i : nat) : nat := match i with O => 0 | _ => 1 end.
Definition first_twice (i : nat) : nat := match i with 2%nat => 0 | _ => i end.

Lemma second_twice_owned : forall i, (i < 3)%nat -> (second_twice i < 2)%nat.
Proof. intros i Hi. each i; cbn; lia. Qed.

Lemma first_twice_owned : forall i, (i < 3)%nat -> (first_twice i < 2)%nat.
Proof. intros i Hi. each i; cbn; lia. Qed.

Lemma second_twice_copies a : (a < 2)%nat -> 0 < count 3 second_twice a /\ one_two a = 1 * count 3 second_twice a.
Proof. intros Ha. each a; unfold count, sum_of; cbn; lra. Qed.

Lemma first_twice_some a : (a < 2)%nat -> 0 < count 3 first_twice a.
Proof. intros Ha. each a; unfold count, sum_of; cbn; lra. Qed.

Definition second_copied : table := fun i => sample (second_twice i).

Lemma second_copied_nonneg : nonneg 3 2 second_copied.
Proof. intros i j Hi Hj. apply (sample_nonneg 2); auto. now apply second_twice_owned. Qed.

Example weights_as_copies_met : can_be_met weights_as_copies.
Proof.
  intros H. destruct (sample_cooperative 2 one_two) as (x & X); [lia|].
  destruct (cooperative_exists 3 2 one_each equal second_copied second_copied_nonneg (one_each_nonneg 2)) as (y & Y).
  exact (H _ _ _ _ second_twice _ 1 _ _ _ second_twice_owned Rlt_0_1 second_twice_copies X Y).
Qed.

Example level_as_copies_met : can_be_met level_as_copies.
Proof.
  intros H. destruct (sample_noncooperative one_two) as (x & t & X); [apply one_two_weights|].
  destruct (noncooperative_exists 3 2 one_each equal second_copied) as (y & s & Y); auto.
  - apply equal_weights.
  - apply second_copied_nonneg.
  - apply one_each_nonneg.
  - exact (H _ _ _ _ second_twice _ 1 _ _ _ _ _ second_twice_owned Rlt_0_1 second_twice_copies X Y).
Qed.

Lemma first_types_cooperative : exists x, cooperative 3 2 one_each (type_weight 3 first_twice equal) sample x.
Proof. now apply sample_cooperative. Qed.

Example job_types_envy_free_met : can_be_met job_types_envy_free.
Proof.
  intros H. destruct first_types_cooperative as (x & X).
  apply (H _ _ _ _ first_twice _ _ _ 0%nat 1%nat first_twice_some X); lia.
Qed.

Example job_types_sharing_met : can_be_met job_types_sharing.
Proof.
  intros H. destruct first_types_cooperative as (x & X).
  apply (H _ _ _ _ first_twice _ _ _ 0%nat first_twice_owned (equal_weights 2) first_twice_some
    (sample_nonneg 3 ltac:(lia)) X); lia.
Qed.

Example job_types_fair_met : can_be_met job_types_fair.
Proof.
  intros H. destruct first_types_cooperative as (x & X).
  exact (H _ _ _ _ first_twice _ _ _ first_twice_owned (equal_weights 2) first_twice_some
    (sample_nonneg 3 ltac:(lia)) X).
Qed.

(* The first user, (1, 2), reports a false job type (1, 7). *)
Definition half_one_half : nat -> R := fun i => match i with 1%nat => 1 | _ => 1 / 2 end.

Example false_types_met : can_be_met false_types.
Proof.
  intros H. destruct (sample_noncooperative equal (equal_weights 2)) as (x & t & X).
  destruct (noncooperative_exists 3 2 one_each half_one_half sample) as (y & s & Y); auto.
  - intros i _. destruct i as [|[|i]]; cbn; lra.
  - now apply sample_nonneg.
  - apply one_each_nonneg.
  - refine (H _ _ _ _ first_twice _ _ sample _ _ _ _ _ 0%nat first_twice_owned (equal_weights 2)
      (sample_nonneg 2 ltac:(lia)) _ _ _ X Y ltac:(lia)).
    + intros b Hb. each b; unfold sum_of, equal; cbn; lra.
    + intros i j Hi Hj E. each i; each j; unfold sample; calculate.
    + intros i j Hi Hj E. each i; now cbn in E.
Qed.

Lemma sum_of_self n a f : (a < n)%nat -> sum_of n (fun i => i) a f = f a.
Proof.
  intros Ha. unfold sum_of. rewrite <- (sum_at n a (f a) Ha). apply sum_ext; intros i _. rewrite Nat.eqb_sym.
  destruct (Nat.eqb_spec i a) as [->|]; reflexivity.
Qed.

(* Claims oef/thm-5.4-over, oef/table-1-noncooperative-lies: over-reports, w'_l >= w_l for the liars, alone or
   together, do not pay under non-cooperative OEF: not every liar gains, whatever the optima before and after. *)
Theorem over_reports_do_not_pay n k m pi w r x t y s liar : weights n pi -> nonneg n k w ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> w l j <= r l j) ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> ~ liar l -> r l j = w l j) ->
  noncooperative n k m pi w x t -> noncooperative n k m pi r y s -> (exists a, (a < n)%nat /\ liar a) ->
  exists a, (a < n)%nat /\ liar a /\ rate k w y a <= rate k w x a.
Proof.
  intros Pi W More Honest X Y Some. apply NNPP. intros None.
  refine (over_reports n k m n (fun i => i) (fun i Hi => Hi) pi pi w r x t y s liar Pi W _ More Honest X Y Some _).
  - intros a Ha. now apply sum_of_self.
  - intros a Ha La. apply Rnot_le_lt. intros L. apply None. exists a. split; [auto|split; [auto|]].
    replace (rate k w y a) with (rate k w (together n (fun i => i) y) a); [auto|].
    unfold rate. rewrite dot_together. now apply sum_of_self.
Qed.

(* The first user reports (1, 3). *)
Definition sample_lie : table := listed [[1; 3]; [1; 5]].

Lemma sample_lie_noncooperative m : (forall j, (j < 2)%nat -> 0 <= m j) ->
  exists x t, noncooperative 2 2 m equal sample_lie x t.
Proof.
  intros M. apply noncooperative_exists; auto; [apply equal_weights|].
  intros l j Hl Hj. each l; each j; unfold sample_lie; calculate.
Qed.

Example over_reports_do_not_pay_met : can_be_met over_reports_do_not_pay.
Proof.
  intros H. destruct (sample_noncooperative equal (equal_weights 2)) as (x & t & X).
  destruct (sample_lie_noncooperative _ (one_each_nonneg 2)) as (y & s & Y).
  refine (H _ _ _ _ _ _ _ _ _ _ (fun l => l = 0%nat) (equal_weights 2) (sample_nonneg 2 ltac:(lia)) _ _ X Y _).
  - intros l j Hl Hj. each l; each j; unfold sample, sample_lie; calculate.
  - intros l j Hl Hj D. each l; reflexivity || now elim D.
  - exists 0%nat. split; [lia|reflexivity].
Qed.

Example report_weighted_mean_met : can_be_met report_weighted_mean.
Proof.
  intros H. destruct (sample_noncooperative equal (equal_weights 2)) as (x & t & X).
  destruct (sample_lie_noncooperative _ (one_each_nonneg 2)) as (y & s & Y).
  refine (H _ _ _ _ _ _ _ _ _ _ 0%nat (equal_weights 2) (sample_nonneg 2 ltac:(lia)) X Y ltac:(lia) _).
  intros l j Hl Hj D. each l; reflexivity || now elim D.
Qed.

(* Claim oef/thm-5.4-trades: over-reports of a group do not pay under non-cooperative OEF even if its users trade the
   GPUs that they receive: no division z of their GPUs gives each of them more than before. *)
Theorem over_reports_and_trades n k m pi w r x t y s z liar : weights n pi -> positive n k w ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> w l j <= r l j) ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> liar l = false -> r l j = w l j) ->
  noncooperative n k m pi w x t -> noncooperative n k m pi r y s -> nonneg n k z ->
  (forall j, (j < k)%nat -> sum n (fun l => if liar l then z l j else 0) <=
    sum n (fun l => if liar l then y l j else 0)) ->
  (exists a, (a < n)%nat /\ liar a = true) ->
  exists a, (a < n)%nat /\ liar a = true /\ rate k w z a <= rate k w x a.
Proof.
  intros Pi W More Honest ((Fx & Rx) & Mx) ((Fy & Ry) & My) Z Traded (b & Hb & Lb). apply NNPP. intros None.
  assert (W0 := positive_nonneg n k w W).
  assert (T0 : 0 <= t) by (apply (level_nonneg n k m pi w x); auto; [lia|now split]).
  assert (Gain : forall a, (a < n)%nat -> liar a = true -> t * pi a < rate k w z a).
  { intros a Ha La. rewrite <- Rx by auto. apply Rnot_le_lt. intros L. apply None. now exists a. }
  (* over-reports only raise the level *)
  assert (Up : t <= s).
  { destruct (scale_down n k m pi r x t) as (v & V); auto.
    - intros l j Hl Hj. apply Rle_trans with (w l j); auto.
    - intros l Hl. rewrite <- Rx by auto. apply dot_le; auto. intros j Hj. now apply Fx.
    - now apply (My v). }
  set (v := fun l => if liar l then z l else y l).
  assert (Fv : feasible n k m v).
  { split.
    - intros l j Hl Hj. unfold v. destruct (liar l); [now apply Z|now apply Fy].
    - intros j Hj. apply Rle_trans with (used n y j); [|now apply Fy]. unfold used, v.
      rewrite (sum_ext n (fun l => (if liar l then z l else y l) j)
        (fun l => (if liar l then z l j else 0) + (if liar l then 0 else y l j)))
        by (intros l _; destruct (liar l); ring).
      rewrite (sum_ext n (fun l => y l j)
        (fun l => (if liar l then y l j else 0) + (if liar l then 0 else y l j)))
        by (intros l _; destruct (liar l); ring).
      rewrite !sum_plus. specialize (Traded j Hj). lra. }
  destruct (spread n k m pi w v t b) as (u & q & Lu & Lq); auto.
  - intros l Hl. unfold rate, v. destruct (liar l) eqn:La; [left; now apply Gain|].
    replace (dot k (w l) (y l)) with (s * pi l); [apply Rmult_le_compat_r; [left|]; auto|].
    rewrite <- Ry by auto. apply sum_ext; intros j Hj. now rewrite Honest.
  - unfold rate, v. rewrite Lb. now apply Gain.
  - specialize (Mx q u Lq). lra.
Qed.

Example over_reports_and_trades_met : can_be_met over_reports_and_trades.
Proof.
  intros H. destruct (sample_noncooperative equal (equal_weights 2)) as (x & t & X).
  destruct (sample_lie_noncooperative _ (one_each_nonneg 2)) as (y & s & Y).
  refine (H _ _ _ _ _ _ _ _ _ _ y (fun l => Nat.eqb l 0) (equal_weights 2) (sample_positive 2 ltac:(lia)) _ _ X Y
    _ _ _).
  - intros l j Hl Hj. each l; each j; unfold sample, sample_lie; calculate.
  - intros l j Hl Hj D. each l; [discriminate|reflexivity].
  - apply Y.
  - intros j _. lra.
  - exists 0%nat. split; [lia|reflexivity].
Qed.

(* Claim oef/thm-5.4-first-type: under non-cooperative OEF with positive speedups a user with GPUs of the first type
   only does not gain by any report with the true speedup, 1, on that type. *)
Theorem first_type_only n k m pi w r x t y s a : weights n pi -> positive n k w -> (a < n)%nat ->
  (forall j, (0 < j < k)%nat -> x a j = 0) -> r a 0%nat = w a 0%nat ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> l <> a -> r l j = w l j) ->
  noncooperative n k m pi w x t -> noncooperative n k m pi r y s -> rate k w y a <= rate k w x a.
Proof.
  intros Pi W Ha First Same Honest ((Fx & Rx) & Mx) ((Fy & Ry) & My). apply Rnot_lt_le. intros Gain.
  assert (T0 : 0 <= t).
  { apply (level_nonneg n k m pi w x); auto; [lia|now apply positive_nonneg|now split]. }
  assert (t <= s).
  { apply (My x). split; [exact Fx|]. intros l Hl. rewrite <- Rx by auto. apply sum_ext; intros j Hj.
    destruct (Nat.eq_dec l a) as [->|D]; [|now rewrite Honest]. destruct j as [|j]; [now rewrite Same|].
    rewrite First by lia. ring. }
  destruct (spread n k m pi w y t a) as (u & z & Lu & Lz); auto.
  - intros l Hl. destruct (Nat.eq_dec l a) as [->|D]; [rewrite <- Rx by auto; lra|].
    replace (rate k w y l) with (s * pi l); [apply Rmult_le_compat_r; [left|]; auto|].
    rewrite <- Ry by auto. apply sum_ext; intros j Hj. now rewrite Honest.
  - rewrite <- Rx by auto. exact Gain.
  - specialize (Mx z u Lz). lra.
Qed.

Definition ten_and_one : nat -> R := fun j => match j with O => 10 | _ => 1 end.

Example first_type_only_met : can_be_met first_type_only.
Proof.
  intros H. destruct (sample_lie_noncooperative ten_and_one) as (y & s & Y); [intros [|j] _; cbn; lra|].
  refine (H _ _ _ _ sample _ (listed [[15 / 2; 0]; [5 / 2; 1]]) (15 / 2) _ _ 0%nat (equal_weights 2)
    (sample_positive 2 ltac:(lia)) ltac:(lia) _ _ _ _ Y).
  - intros j Hj. each j; calculate.
  - reflexivity.
  - intros l j Hl Hj D. each l; reflexivity || now elim D.
  - split; [split; [split|]|].
    + intros l j Hl Hj. each l; each j; calculate.
    + intros j Hj. each j; unfold ten_and_one; calculate.
    + intros l Hl. each l; unfold sample; calculate.
    + intros z u (F & R). shares_of_two F. pose proof (R 0%nat ltac:(lia)). pose proof (R 1%nat ltac:(lia)).
      unfold sample, ten_and_one in *. calculate.
Qed.

(* -- Theorems 3.2 and 3.3: mechanisms and misreports -- *)

(* A mechanism allocates GPUs from the numbers of users and types, the GPUs of each type, and the reported speedups. *)
Definition mechanism := forall n k : nat, (nat -> R) -> table -> table.

(* Section 2.3.1: no user gains by a report of speedups with no element below the truth. *)
Definition strategy_proof (M : mechanism) : Prop := forall n k m w r a, (forall j, (j < k)%nat -> 0 < m j) ->
  speedups n k w -> speedups n k r -> (a < n)%nat -> (forall j, (j < k)%nat -> w a j <= r a j) ->
  (forall l j, (l < n)%nat -> (j < k)%nat -> l <> a -> r l j = w l j) ->
  rate k w (M n k m r) a <= rate k w (M n k m w) a.

(* Fig. 2: two users with speedups (1, 2) and (1, 4), and the report (1, 3) of the first one. *)
Definition fig2 : table := listed [[1; 2]; [1; 4]].
Definition fig2_lie : table := listed [[1; 3]; [1; 4]].

Lemma fig2_speedups : speedups 2 2 fig2 /\ speedups 2 2 fig2_lie.
Proof.
  split; intros l Hl; (split; [|intros i j Hij; assert (i = 0%nat /\ j = 1%nat) as (-> & ->) by lia]);
  each l; unfold fig2, fig2_lie; calculate.
Qed.

Lemma fig2_feasible b : 0 <= b <= 1 -> feasible 2 2 one_each (listed [[1; b]; [0; 1 - b]]).
Proof. intros B. split; [intros l j Hl Hj; each l; each j; calculate|]. intros j Hj. each j; calculate. Qed.

(* The first user gains by the report wherever a program has these totals, and it has 2 by its report. *)
Lemma no_strategy_proof (best : nat -> nat -> (nat -> R) -> table -> table -> Prop) :
  (forall x, best 2%nat 2%nat one_each fig2 x -> feasible 2 2 one_each x /\ 9 / 2 <= total 2 2 fig2 x) ->
  (forall y, best 2%nat 2%nat one_each fig2_lie y -> feasible 2 2 one_each y /\ 14 / 3 <= total 2 2 fig2_lie y /\
    2 <= rate 2 fig2_lie y 0%nat) ->
  ~ exists M : mechanism, strategy_proof M /\
    forall n k m w, (forall j, (j < k)%nat -> 0 < m j) -> speedups n k w -> best n k m w (M n k m w).
Proof.
  intros Truth Lie (M & SP & Best). destruct fig2_speedups as (P & Q).
  assert (One : forall j, (j < 2)%nat -> 0 < one_each j) by (intros; unfold one_each; lra).
  destruct (Truth _ (Best 2%nat 2%nat one_each fig2 One P)) as (Fx & Tx).
  destruct (Lie _ (Best 2%nat 2%nat one_each fig2_lie One Q)) as (Fy & Ty & Ry).
  specialize (SP 2%nat 2%nat one_each fig2 fig2_lie 0%nat One P Q ltac:(lia)).
  set (x := M 2%nat 2%nat one_each fig2) in *. set (y := M 2%nat 2%nat one_each fig2_lie) in *.
  assert (rate 2 fig2 y 0%nat <= rate 2 fig2 x 0%nat).
  { apply SP; [intros j Hj; each j; unfold fig2, fig2_lie; calculate|]. intros l j Hl Hj D. each l. reflexivity. }
  shares_of_two Fx. shares_of_two Fy. unfold fig2, fig2_lie in *. calculate.
Qed.

(* Claim oef/thm-3.2: no mechanism with the largest total among envy-free allocations is strategy-proof. (Optima exist:
   see cooperative_exists, and largest_sharing_total_exists for Theorem 3.3.) *)
Theorem envy_free_not_strategy_proof : ~ exists M : mechanism, strategy_proof M /\
  forall n k m w, (forall j, (j < k)%nat -> 0 < m j) -> speedups n k w -> cooperative n k m equal w (M n k m w).
Proof.
  apply (no_strategy_proof (fun n k m w x => cooperative n k m equal w x)).
  - intros x (F & _ & Max). split; [exact F|].
    apply Rle_trans with (total 2 2 fig2 (listed [[1; 1 / 4]; [0; 1 - 1 / 4]])).
    + unfold fig2. calculate.
    + apply Max; [apply fig2_feasible; lra|]. intros l i Hl Hi. each l; each i; unfold fig2; calculate.
  - intros y (F & E & Max). split; [exact F|].
    assert (T : total 2 2 fig2_lie (listed [[1; 1 / 3]; [0; 1 - 1 / 3]]) <= total 2 2 fig2_lie y).
    { apply Max; [apply fig2_feasible; lra|]. intros l i Hl Hi. each l; each i; unfold fig2_lie; calculate. }
    pose proof (E 0%nat 1%nat ltac:(lia) ltac:(lia)). shares_of_two F. unfold fig2_lie in *. calculate.
Qed.

Example envy_free_not_strategy_proof_met : can_be_met envy_free_not_strategy_proof.
Proof. auto. Qed.

(* Claim oef/thm-3.3: no mechanism with the largest total under the sharing incentive is strategy-proof. *)
Theorem sharing_not_strategy_proof : ~ exists M : mechanism, strategy_proof M /\
  forall n k m w, (forall j, (j < k)%nat -> 0 < m j) -> speedups n k w ->
    largest_sharing_total n k m equal w (M n k m w).
Proof.
  apply (no_strategy_proof (fun n k m w x => largest_sharing_total n k m equal w x)).
  - intros x (F & _ & Max). split; [exact F|].
    apply Rle_trans with (total 2 2 fig2 (listed [[1; 1 / 4]; [0; 1 - 1 / 4]])).
    + unfold fig2. calculate.
    + apply Max; [apply fig2_feasible; lra|]. intros l Hl. each l; unfold fig2; calculate.
  - intros y (F & E & Max). split; [exact F|].
    assert (T : total 2 2 fig2_lie (listed [[1; 1 / 3]; [0; 1 - 1 / 3]]) <= total 2 2 fig2_lie y).
    { apply Max; [apply fig2_feasible; lra|]. intros l Hl. each l; unfold fig2_lie; calculate. }
    pose proof (E 0%nat ltac:(lia)). shares_of_two F. unfold fig2_lie in *. calculate.
Qed.

Example sharing_not_strategy_proof_met : can_be_met sharing_not_strategy_proof.
Proof. auto. Qed.

(* -- A price on every GPU gained -- *)

(* GPUs that users get beyond those that they hold. *)
Definition gained (n k : nat) (held x : table) : R := sum n (fun l => sum k (fun j => Rmax 0 (x l j - held l j))).
(* eq. (10) with a price on every GPU gained. *)
Definition cooperative_with_price (n k : nat) (m : nat -> R) (pi : nat -> R) (price : R) (held w x : table) : Prop :=
  feasible n k m x /\ envy_free n k pi w x /\ forall y, feasible n k m y -> envy_free n k pi w y ->
    total n k w y - price * gained n k held y <= total n k w x - price * gained n k held x.

(* Claim oef/switching-envy: cooperative OEF with a price on every GPU gained is envy-free. *)
Theorem price_envy_free n k m pi price held w x :
  cooperative_with_price n k m pi price held w x -> envy_free n k pi w x.
Proof. now intros (_ & EF & _). Qed.

(* Tables of n + n users, the first half and the second half. *)
Definition halves (n : nat) (x y : table) : table := fun l => if Nat.ltb l n then x l else y (l - n)%nat.

Lemma halves_low n x y l : (l < n)%nat -> halves n x y l = x l.
Proof. intros H. unfold halves. now apply Nat.ltb_lt in H as ->. Qed.

Lemma halves_high n x y l : halves n x y (n + l)%nat = y l.
Proof. unfold halves. rewrite (proj2 (Nat.ltb_ge (n + l) n)) by lia. f_equal. lia. Qed.

Lemma total_halves n k c d z :
  total (n + n) k (halves n c d) z = total n k c z + total n k d (fun l => z (n + l)%nat).
Proof.
  unfold total. rewrite sum_append. f_equal; apply sum_ext; intros l Hl; unfold rate;
  [now rewrite halves_low|now rewrite halves_high].
Qed.

(* Such an optimum exists: the second half of the table has the GPUs that each user gains. *)
Lemma price_optimum_exists n k m pi price held w : nonneg n k w -> (forall j, (j < k)%nat -> 0 <= m j) -> 0 <= price ->
  exists x, cooperative_with_price n k m pi price held w x.
Proof.
  intros W M Price.
  set (p := by_pairs (n + n) k (fun l j => at_least l (ind j) 0 0) ++
    by_users k (fun j => Limit (halves n (fun _ => ind j) (fun _ _ => 0)) 0 (m j)) ++
    by_pairs n k (fun l j => Limit (fun i s => of_user l (ind j) i s +
      of_user (n + l) (fun s => -1 * ind j s) i s) 0 (held l j)) ++ by_pairs n n (envy_limit pi w)).
  assert (Zero : forall z, total n k (fun _ _ => 0) z = 0)
    by (intros; apply sum_zero; intros; apply sum_zero; intros; ring).
  assert (P : forall z t, Forall (keeps (n + n) k z t) p <-> feasible n k m z /\ envy_free n k pi w z /\
    forall l j, (l < n)%nat -> (j < k)%nat -> 0 <= z (n + l)%nat j /\ z l j - held l j <= z (n + l)%nat j).
  { intros z t. unfold p. rewrite !Forall_app, !by_pairs_spec, by_users_spec.
    assert (A : forall l j, (l < n + n)%nat -> (j < k)%nat ->
      (keeps (n + n) k z t (at_least l (ind j) 0 0) <-> 0 <= z l j)).
    { intros l j Hl Hj. rewrite at_least_spec, ind_dot by auto. split; intros; lra. }
    assert (B : forall j, (j < k)%nat ->
      (keeps (n + n) k z t (Limit (halves n (fun _ => ind j) (fun _ _ => 0)) 0 (m j)) <-> used n z j <= m j)).
    { intros j Hj. unfold keeps. cbn [on_shares on_level at_most]. rewrite total_halves, Zero.
      replace (total n k (fun _ => ind j) z) with (used n z j); [split; intros; lra|].
      apply sum_ext; intros; symmetry; now apply ind_dot. }
    assert (C : forall l j, (l < n)%nat -> (j < k)%nat ->
      (keeps (n + n) k z t (Limit (fun i s => of_user l (ind j) i s +
      of_user (n + l) (fun s => -1 * ind j s) i s) 0 (held l j)) <-> z l j - held l j <= z (n + l)%nat j)).
    { intros l j Hl Hj. unfold keeps. cbn [on_shares on_level at_most].
      rewrite total_plus, !total_of_user, dot_scal_l, !ind_dot by (auto; lia). split; intros; lra. }
    assert (D : forall l i, (l < n)%nat -> (i < n)%nat -> (keeps (n + n) k z t (envy_limit pi w l i) <->
      pi l * dot k (w l) (z i) <= pi i * rate k w z l)) by (intros; apply envy_limit_spec; lia).
    split.
    - intros (X & Cap & G & EF). repeat split.
      + intros l j Hl Hj. apply A; [lia|auto|apply X; lia].
      + intros j Hj. apply B; auto.
      + intros l i Hl Hi. apply D; auto.
      + apply A; [lia|auto|apply X; lia].
      + apply C; auto.
    - intros ((X & Cap) & EF & G). repeat split.
      + intros l j Hl Hj. apply A; auto. destruct (Nat.lt_ge_cases l n); [auto|].
        replace l with (n + (l - n))%nat by lia. apply G; lia.
      + intros j Hj. apply B; auto.
      + intros l j Hl Hj. apply C; auto. now apply G.
      + intros l i Hl Hi. apply D; auto. }
  set (gains := fun (x : table) l j => Rmax 0 (x l j - held l j)).
  assert (Value : forall z, total (n + n) k (halves n w (fun _ _ => - price)) z =
    total n k w z - price * sum n (fun l => sum k (z (n + l)%nat))).
  { intros z. rewrite total_halves. unfold Rminus. f_equal. rewrite Ropp_mult_distr_l, <- sum_scal.
    apply sum_ext; intros l _.
    unfold rate, dot. now rewrite sum_scal. }
  assert (With : forall x, feasible n k m x -> envy_free n k pi w x ->
    Forall (keeps (n + n) k (halves n x (gains x)) 0) p).
  { intros x (X & Cap) EF. apply P. split; [split|split].
    - intros l j Hl Hj. rewrite halves_low; auto.
    - intros j Hj. unfold used. rewrite (sum_ext n _ (fun l => x l j)); [now apply Cap|]. intros l Hl.
      now rewrite halves_low.
    - intros l i Hl Hi. unfold rate. rewrite !halves_low by auto. now apply EF.
    - intros l j Hl Hj. rewrite halves_high, halves_low by auto. split; [apply Rmax_l|apply Rmax_r]. }
  destruct (cooperative_exists n k m pi w W M) as (x0 & F0 & E0 & _).
  destruct (program_optimum (n + n) k p (halves n w (fun _ _ => - price)) 0 (halves n x0 (gains x0)) 0
    (sum n (fun l => dot k (w l) m))) as (z & t & F & Max); [now apply With| |].
  - intros z t F. apply P in F as (F & _ & G). rewrite Value.
    assert (total n k w z <= sum n (fun l => dot k (w l) m)) by (apply sum_le; intros; now apply rate_at_most with n).
    assert (0 <= sum n (fun l => sum k (z (n + l)%nat))).
    { apply sum_nonneg; intros l Hl. apply sum_nonneg; intros j Hj. now apply G. }
    nra.
  - apply P in F as (F & EF & G). exists z. split; [exact F|split; [exact EF|]]. intros y Fy Ey.
    specialize (Max _ 0 (With y Fy Ey)). rewrite !Value in Max.
    replace (total n k w (halves n y (gains y))) with (total n k w y) in Max.
    2: { apply sum_ext; intros l Hl. unfold rate. now rewrite halves_low. }
    rewrite (sum_ext n _ (fun l => sum k (gains y l))) in Max by (intros; now rewrite halves_high).
    change (sum n (fun l => sum k (gains y l))) with (gained n k held y) in Max.
    assert (gained n k held z <= sum n (fun l => sum k (z (n + l)%nat))).
    { apply sum_le; intros l Hl. apply sum_le; intros j Hj. apply Rmax_lub; apply G; auto. }
    nra.
Qed.

(* Each user holds one half of every type. *)
Example price_envy_free_met : can_be_met price_envy_free.
Proof.
  intros H. destruct (price_optimum_exists 2 2 one_each equal 1 (fun _ _ => 1 / 2) sample) as (x & X).
  - apply sample_nonneg; lia.
  - apply one_each_nonneg.
  - lra.
  - exact (H _ _ _ _ _ _ _ _ X).
Qed.
