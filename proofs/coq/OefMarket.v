(* OEF: equal division, the market of equal budgets (CEEI), and the order of the totals (Theorem 5.1). *)
From Coq Require Import Reals Lra Lia List PeanoNat Classical.
From Hetopt Require Import Sums Hypotheses Oef.
Import ListNotations.
Open Scope R_scope.

(* A point that nearly optimal values approach: f is at most M on S, comes near M, and coordinates c are bounded. *)
Section Approach.
Variables (X : Type) (S : X -> Prop) (f : X -> R) (c : nat -> X -> R) (M B : R).
Hypothesis bounded : forall i x, S x -> 0 <= c i x <= B.
Hypothesis near_best : forall e, 0 < e -> exists x, S x /\ M - e < f x.

Let near (d : nat) (z : nat -> R) (e : R) (x : X) : Prop :=
  S x /\ M - e < f x /\ forall i, (i < d)%nat -> Rabs (c i x - z i) < e.

Let near_more d z e e' x : e <= e' -> near d z e x -> near d z e' x.
Proof. intros L (A & B1 & C). repeat split; auto; [lra|]. intros i Hi. specialize (C i Hi). lra. Qed.

Lemma approached d : exists z, forall e, 0 < e -> exists x, S x /\ M - e < f x /\
  forall i, (i < d)%nat -> Rabs (c i x - z i) < e.
Proof.
  change (exists z, forall e, 0 < e -> exists x, near d z e x).
  induction d as [|d (z & Z)].
  - exists (fun _ => 0). intros e E. destruct (near_best e E) as (x & A & C). exists x. repeat split; auto. lia.
  - (* the next coordinate: the limit inferior of c d *)
    destruct (completeness (fun a => exists e, 0 < e /\ forall x, near d z e x -> a <= c d x)) as (l & L1 & L2).
    + exists B. intros a (e & E & A). destruct (Z e E) as (x & N). specialize (A x N).
      destruct N as (Sx & _). specialize (bounded d x Sx). lra.
    + exists 0, 1. split; [lra|]. intros x (Sx & _). apply bounded; auto.
    + exists (fun i => if Nat.eqb i d then l else z i). intros e E.
      assert (High : exists a e', l - e < a /\ 0 < e' /\ forall x, near d z e' x -> a <= c d x).
      { apply NNPP. intros None. assert (l <= l - e); [|lra]. apply L2. intros a (e' & E' & A).
        apply Rnot_lt_le. intros Lt. apply None. now exists a, e'. }
      destruct High as (a & e' & La & E' & A). set (s := Rmin e e').
      assert (Low : exists x, near d z s x /\ c d x < l + e).
      { apply NNPP. intros None. assert (l + e <= l); [|lra]. apply L1. exists s.
        split; [now apply Rmin_glb_lt|]. intros x N. apply Rnot_lt_le. intros Lt. apply None. now exists x. }
      destruct Low as (x & N & Lt). exists x.
      assert (N' := near_more d z s e' x (Rmin_r e e') N). apply (near_more d z s e x (Rmin_l e e')) in N.
      destruct N as (Sx & Fx & C). specialize (A x N'). repeat split; auto. intros i Hi.
      destruct (Nat.eqb_spec i d) as [->|D]; [apply Rabs_def1; lra|apply C; lia].
Qed.
End Approach.

Lemma ln_le u v : 0 < u -> 0 < v -> ln v <= ln u + (v - u) / u.
Proof.
  intros U V. pose proof (exp_ineq1_le (ln v - ln u)) as E. unfold Rminus in E at 2.
  rewrite exp_plus, exp_Ropp, !exp_ln in E by auto.
  replace ((v - u) / u) with (v * / u - 1) by (field; lra). lra.
Qed.

Section Market.
Variables n k : nat.
Variable m : nat -> R.

(* -- Equal division -- *)

(* Claim oef/equal-split-envy: if every user has its part of every type, by weight, no user envies another. *)
Theorem split_envy_free pi w : weights n pi -> envy_free n k pi w (split_by_weight n m pi).
Proof.
  intros Pi l i Hl Hi. unfold rate, split_by_weight. rewrite !dot_parts. right.
  assert (0 < sum n pi) by now apply weights_sum with l. field; lra.
Qed.

(* Claim oef/equal-split-sharing: if every user has its part of every type, by weight, all have the sharing
   incentive. *)
Theorem split_sharing_incentive pi w : sharing_incentive n k m pi w (split_by_weight n m pi).
Proof. apply split_sharing. Qed.

(* The allocation for these reports. *)
Definition split_rule (pi : nat -> R) (reports : table) : table := split_by_weight n m pi.

(* Claim oef/equal-split-reports: under the equal split no report pays, for one user or several: the allocation does not
   depend on the reports r. *)
Theorem split_reports pi w r l : (l < n)%nat -> rate k w (split_rule pi r) l <= rate k w (split_rule pi w) l.
Proof. intros _. right. reflexivity. Qed.

(* -- The market of equal budgets -- *)

(* Users with budgets pi_l (all equal: CEEI) buy GPUs at prices p_j; the market is in equilibrium. Allocations with the
   largest sum of pi_l ln (w_l.x_l) are of this kind: see largest_log_rates_equilibrium. *)
Record equilibrium (pi : nat -> R) (w x : table) (p : nat -> R) : Prop := {
  allocated : feasible n k m x;
  priced : forall j, (j < k)%nat -> 0 <= p j;
  affordable : forall l, (l < n)%nat -> dot k p (x l) <= pi l;
  (* no bundle that a user can pay is better *)
  best : forall l g, (l < n)%nat -> (forall j, (j < k)%nat -> 0 <= g j) -> dot k p g <= pi l ->
    dot k (w l) g <= rate k w x l;
  (* what is not sold out costs nothing *)
  cleared : forall j, (j < k)%nat -> 0 < p j -> used n x j = m j }.

(* Every user can run on some type. *)
Definition useful (w : table) : Prop := forall l, (l < n)%nat -> exists j, (j < k)%nat /\ 0 < w l j.

Section Equilibrium.
Variables (pi : nat -> R) (w x : table) (p : nat -> R).
Hypothesis Pi : weights n pi.
Hypothesis W : nonneg n k w.
Hypothesis E : equilibrium pi w x p.

(* GPUs at any cost are worth no more, per cost, than what a user has for its budget. *)
Lemma per_budget l g : (l < n)%nat -> (forall j, (j < k)%nat -> 0 <= g j) ->
  pi l * dot k (w l) g <= rate k w x l * dot k p g.
Proof.
  intros Hl G. pose proof (Pi l Hl) as P. set (c := dot k p g). set (v := dot k (w l) g).
  assert (V : 0 <= v) by (apply dot_nonneg; auto).
  assert (C : 0 <= c) by (apply dot_nonneg; [apply E|auto]).
  assert (Scaled : forall s, 0 <= s -> s * c <= pi l -> s * v <= rate k w x l).
  { intros s S B. unfold v. rewrite <- dot_scal. apply (best _ _ _ _ E); auto.
    - intros j Hj. apply Rmult_le_pos; auto.
    - rewrite dot_scal. exact B. }
  destruct C as [C|C].
  - assert (H : pi l / c * v <= rate k w x l).
    { apply Scaled; [left; now apply Rdiv_lt_0_compat|]. right. field. lra. }
    apply Rmult_le_compat_r with (r := c) in H; [|lra].
    replace (pi l / c * v * c) with (pi l * v) in H by (field; lra). exact H.
  - rewrite <- C, Rmult_0_r. destruct V as [V|<-]; [|lra]. exfalso.
    assert (R : 0 <= rate k w x l) by (rewrite <- (Rmult_0_l v); apply Scaled; lra).
    assert (H : (rate k w x l + 1) / v * v <= rate k w x l).
    { apply Scaled; [apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]|]. rewrite <- C. lra. }
    replace ((rate k w x l + 1) / v * v) with (rate k w x l + 1) in H by (field; lra). lra.
Qed.

(* All GPUs cost as much as all that is bought. *)
Lemma all_bought : dot k p m = sum n (fun l => dot k p (x l)).
Proof.
  rewrite dot_used. apply sum_ext; intros j Hj. destruct (priced _ _ _ _ E j Hj) as [P|<-]; [|ring].
  now rewrite (cleared _ _ _ _ E j Hj P).
Qed.

Lemma income : dot k p m <= sum n pi.
Proof. rewrite all_bought. apply sum_le. apply E. Qed.

Lemma budgets_envy_free : envy_free n k pi w x.
Proof.
  intros l i Hl Hi. destruct (allocated _ _ _ _ E) as (X & _).
  pose proof (per_budget l (x i) Hl (fun j => X i j Hi)) as B. pose proof (affordable _ _ _ _ E i Hi).
  assert (0 <= rate k w x l) by now apply rate_nonneg with n. nra.
Qed.

Lemma budgets_sharing : sharing_incentive n k m pi w x.
Proof.
  destruct (allocated _ _ _ _ E) as (X & Cap).
  assert (M : forall j, (j < k)%nat -> 0 <= m j).
  { intros j Hj. apply Rle_trans with (used n x j); [|auto]. apply sum_nonneg; auto. }
  intros l Hl. assert (S : 0 < sum n pi) by now apply weights_sum with l.
  rewrite Rmult_comm, <- dot_scal. assert (0 < pi l / sum n pi) by now apply Rdiv_lt_0_compat; auto.
  apply (best _ _ _ _ E); auto.
  - intros j Hj. apply Rmult_le_pos; auto; lra.
  - rewrite dot_scal. pose proof income.
    apply Rle_trans with (pi l / sum n pi * sum n pi); [apply Rmult_le_compat_l; lra|].
    right. field. lra.
Qed.

Lemma budgets_pareto : useful w -> pareto_efficient n k m w x.
Proof.
  intros Useful y (Y & Cap) All.
  assert (R : forall l, (l < n)%nat -> 0 < rate k w x l).
  { intros l Hl. destruct (Useful l Hl) as (j & Hj & P). pose proof (per_budget l (ind j) Hl) as B.
    apply Rnot_le_lt. intros L.
    assert (G : forall i, (i < k)%nat -> 0 <= ind j i) by (intros; apply ind_nonneg).
    assert (C : 0 <= dot k p (ind j)) by (apply dot_nonneg; [apply E|auto]).
    specialize (B G). rewrite dot_ind in B by auto. specialize (Pi l Hl). nra. }
  assert (Cost : forall l, (l < n)%nat -> pi l * rate k w y l <= rate k w x l * dot k p (y l))
    by (intros; apply per_budget; auto).
  assert (Pay : forall l, (l < n)%nat -> pi l <= dot k p (y l)).
  { intros l Hl. specialize (Cost l Hl). specialize (All l Hl). specialize (R l Hl). specialize (Pi l Hl).
    apply Rmult_le_reg_l with (rate k w x l); [auto|]. nra. }
  assert (Sum : sum n (fun l => dot k p (y l)) <= sum n pi).
  { apply Rle_trans with (dot k p m); [|apply income]. rewrite dot_used. apply dot_le_r; [apply E|exact Cap]. }
  intros l Hl. pose proof (sum_le_eq n _ _ Pay Sum l Hl) as Same. cbn in Same. specialize (Cost l Hl).
  rewrite <- Same in Cost.
  specialize (All l Hl). specialize (Pi l Hl). nra.
Qed.

End Equilibrium.

(* Claim oef/ceei-envy: the allocation of the market is envy-free, in proportion to the budgets. *)
Theorem market_envy_free pi w x p : weights n pi -> nonneg n k w -> equilibrium pi w x p -> envy_free n k pi w x.
Proof. apply budgets_envy_free. Qed.

(* Claim oef/ceei-sharing: the allocation of the market gives the sharing incentive. *)
Theorem market_sharing pi w x p : weights n pi -> equilibrium pi w x p -> sharing_incentive n k m pi w x.
Proof. apply budgets_sharing. Qed.

(* Claim oef/ceei-pareto: the allocation of the market is Pareto-efficient if every user can run on some type. *)
Theorem market_pareto pi w x p : weights n pi -> nonneg n k w -> useful w -> equilibrium pi w x p ->
  pareto_efficient n k m w x.
Proof. intros Pi W Useful E. now apply (budgets_pareto pi w x p). Qed.

(* -- An equilibrium exists: the largest sum of pi_l ln (w_l.x_l) (Eisenberg and Gale) -- *)

Section Existence.
Variables (pi : nat -> R) (w : table).
Hypothesis Pi : weights n pi.
Hypothesis W : nonneg n k w.
Hypothesis M : forall j, (j < k)%nat -> 0 <= m j.

Definition all_served (x : table) : Prop := feasible n k m x /\ forall l, (l < n)%nat -> 0 < rate k w x l.
Definition log_rates (u : nat -> R) : R := sum n (fun l => pi l * ln (u l)).

Lemma log_rates_le u v : (forall l, (l < n)%nat -> 0 < u l) -> (forall l, (l < n)%nat -> 0 < v l) ->
  log_rates v <= log_rates u + sum n (fun l => pi l * ((v l - u l) / u l)).
Proof.
  intros U V. unfold log_rates. rewrite <- sum_plus. apply sum_le; intros l Hl. rewrite <- Rmult_plus_distr_l.
  apply Rmult_le_compat_l; [left; auto|]. apply ln_le; auto.
Qed.

Lemma largest_log_rates : (0 < n)%nat -> (exists x, all_served x) ->
  exists x, all_served x /\ forall y, all_served y -> log_rates (rate k w y) <= log_rates (rate k w x).
Proof.
  intros N (x0 & S0). set (B := sum n (fun l => dot k (w l) m)).
  assert (Full : forall l, (l < n)%nat -> 0 <= dot k (w l) m) by (intros; apply dot_nonneg; auto).
  assert (Upto : forall x l, all_served x -> (l < n)%nat -> rate k w x l <= B).
  { intros x l (F & _) Hl. apply Rle_trans with (dot k (w l) m); [now apply rate_at_most with n|].
    now apply (sum_term n (fun l => dot k (w l) m)). }
  assert (B0 : 0 < B) by (apply Rlt_le_trans with (rate k w x0 0%nat); [apply S0|apply Upto]; auto).
  assert (Logs : forall x l, all_served x -> (l < n)%nat -> pi l * ln (rate k w x l) <= pi l * B).
  { intros x l S Hl. apply Rmult_le_compat_l; [left; auto|].
    pose proof (ln_le 1 (rate k w x l) Rlt_0_1 (proj2 S l Hl)) as L.
    rewrite ln_1 in L. specialize (Upto x l S Hl). lra. }
  destruct (completeness (fun v => exists x, all_served x /\ v = log_rates (rate k w x))) as (top & T1 & T2).
  { exists (sum n (fun l => pi l * B)). intros v (x & S & ->). apply sum_le; intros l Hl. now apply Logs. }
  { now exists (log_rates (rate k w x0)), x0. }
  destruct (approached table all_served (fun x => log_rates (rate k w x))
    (fun l x => if Nat.ltb l n then rate k w x l else 0) top B) with (d := n) as (u & U).
  { intros l x S. destruct (Nat.ltb_spec l n) as [Hl|Hl]; [|lra]. split; [left; now apply S|now apply Upto]. }
  { intros e E. apply NNPP. intros None. assert (top <= top - e); [|lra]. apply T2. intros v (x & S & ->).
    apply Rnot_lt_le. intros L. apply None. now exists x. }
  assert (U' : forall e, 0 < e -> exists x, all_served x /\ top - e < log_rates (rate k w x) /\
    forall l, (l < n)%nat -> u l - e < rate k w x l < u l + e).
  { intros e E. destruct (U e E) as (x & S & L & C). exists x. repeat split; try apply S; auto; specialize (C l H);
    rewrite (proj2 (Nat.ltb_lt l n) H) in C; apply Rabs_def2 in C; lra. }
  (* no limit of rates is 0: its logarithm would be too small *)
  assert (Pos : forall l, (l < n)%nat -> 0 < u l).
  { intros l Hl. set (low := (top - 1 - sum n (fun l => pi l * B)) / pi l). pose proof (exp_pos low) as D.
    destruct (U' (Rmin 1 (exp low / 2))) as (x & S & L & C); [apply Rmin_glb_lt; lra|].
    pose proof (Rmin_l 1 (exp low / 2)). pose proof (Rmin_r 1 (exp low / 2)). specialize (C l Hl).
    enough (exp low < rate k w x l) by lra. rewrite <- (exp_ln (rate k w x l)) by now apply S. apply exp_increasing.
    apply Rmult_lt_reg_l with (pi l); [auto|]. unfold low.
    replace (pi l * ((top - 1 - sum n (fun l => pi l * B)) / pi l)) with (top - 1 - sum n (fun l => pi l * B))
      by (field; specialize (Pi l Hl); lra).
    assert (Rest : log_rates (rate k w x) <= sum n (fun l => pi l * B) + pi l * ln (rate k w x l)).
    { assert (P : pi l * B - pi l * ln (rate k w x l) <= sum n (fun l => pi l * B - pi l * ln (rate k w x l))).
      { apply (sum_term n (fun l => pi l * B - pi l * ln (rate k w x l))); auto. intros i Hi.
        specialize (Logs x i S Hi). lra. }
      rewrite sum_minus in P. unfold log_rates. assert (0 <= pi l * B) by (specialize (Pi l Hl); nra). lra. }
    lra. }
  (* an allocation has these rates *)
  destruct (U' 1 Rlt_0_1) as (x1 & (F1 & _) & _ & C1).
  destruct (largest_level n k m w [] u (fun _ => 1) x1 (-1) 0) as (x & t & (F & _ & R) & Max); auto; [lra| |].
  { intros l Hl. specialize (C1 l Hl). lra. }
  assert (T : 0 <= t).
  { apply Rnot_lt_le. intros L. destruct (U' (- t / 2)) as (y & (Fy & _) & _ & C); [lra|].
    assert (t / 2 <= t); [|lra]. apply (Max y); [exact Fy|constructor|]. intros l Hl. specialize (C l Hl). lra. }
  assert (Least : forall l, (l < n)%nat -> u l <= rate k w x l) by (intros l Hl; specialize (R l Hl); lra).
  assert (S : all_served x).
  { split; [exact F|]. intros l Hl. specialize (Pos l Hl). specialize (Least l Hl). lra. }
  exists x. split; [exact S|]. intros y Sy. apply Rle_trans with top; [apply T1; now exists y|].
  apply Rle_trans with (log_rates u).
  - set (slope := sum n (fun l => pi l * / u l)). assert (Slope : 0 <= slope).
    { apply sum_nonneg; intros l Hl. left. apply Rmult_lt_0_compat; [auto|apply Rinv_0_lt_compat; auto]. }
    apply Rnot_lt_le. intros L. set (e := (top - log_rates u) / (2 * (1 + slope))).
    assert (E : 0 < e) by (apply Rdiv_lt_0_compat; lra).
    destruct (U' e E) as (v & Sv & Lv & C).
    pose proof (log_rates_le u (rate k w v) Pos (proj2 Sv)) as Up.
    assert (Few : sum n (fun l => pi l * ((rate k w v l - u l) / u l)) <= e * slope).
    { unfold slope. rewrite <- sum_scal. apply sum_le; intros l Hl. specialize (C l Hl). unfold Rdiv.
      replace (pi l * ((rate k w v l - u l) * / u l)) with ((rate k w v l - u l) * (pi l * / u l)) by ring.
      apply Rmult_le_compat_r; [|lra]. left. apply Rmult_lt_0_compat; [auto|apply Rinv_0_lt_compat; auto]. }
    assert (e * (1 + slope) = (top - log_rates u) / 2) by (unfold e; field; lra). lra.
  - apply sum_le; intros l Hl. apply Rmult_le_compat_l; [left; auto|]. destruct (Least l Hl) as [L|<-]; [|lra].
    left. apply ln_increasing; auto.
Qed.

(* The slope of the sum of logarithms towards another allocation is not positive. *)
Lemma slope_of_log_rates x y : all_served x ->
  (forall z, all_served z -> log_rates (rate k w z) <= log_rates (rate k w x)) -> feasible n k m y ->
  sum n (fun l => pi l * (rate k w y l / rate k w x l)) <= sum n pi.
Proof.
  intros ((X & CapX) & U) Max (Y & CapY). set (d := fun l => rate k w y l / rate k w x l - 1).
  assert (D : forall l, (l < n)%nat -> -1 <= d l).
  { intros l Hl. assert (0 <= rate k w y l / rate k w x l); [|unfold d; lra].
    apply Rmult_le_pos; [now apply rate_nonneg with n|left; apply Rinv_0_lt_compat; auto]. }
  assert (Slope : forall e, 0 < e <= 1 / 2 -> sum n (fun l => pi l * d l) <=
    e * (2 * sum n (fun l => pi l * (d l * d l)))).
  { intros e E. set (z := fun l j => (1 - e) * x l j + e * y l j).
    assert (R : forall l, (l < n)%nat -> rate k w z l = rate k w x l * (1 + e * d l)).
    { intros l Hl. unfold rate at 1, z. rewrite dot_plus, !dot_scal. fold (rate k w x l) (rate k w y l). unfold d.
      field. specialize (U l Hl). lra. }
    assert (Sz : all_served z).
    { split; [split|].
      - intros l j Hl Hj. specialize (X l j Hl Hj). specialize (Y l j Hl Hj). unfold z. nra.
      - intros j Hj. unfold used, z. rewrite sum_plus, !sum_scal. specialize (CapX j Hj). specialize (CapY j Hj).
        unfold used in *. nra.
      - intros l Hl. rewrite R by auto. specialize (D l Hl). apply Rmult_lt_0_compat; [auto|nra]. }
    pose proof (log_rates_le (rate k w z) (rate k w x) (proj2 Sz) U) as L. specialize (Max z Sz).
    assert (G : sum n (fun l => pi l * (d l * e - 2 * e * e * (d l * d l))) <=
      sum n (fun l => - 1 * (pi l * ((rate k w x l - rate k w z l) / rate k w z l)))).
    { apply sum_le; intros l Hl. replace (- 1 * (pi l * ((rate k w x l - rate k w z l) / rate k w z l)))
        with (pi l * ((rate k w z l - rate k w x l) / rate k w z l)) by (unfold Rdiv; ring).
      apply Rmult_le_compat_l; [left; auto|]. rewrite R by auto. specialize (U l Hl). specialize (D l Hl).
      assert (H : 1 / 2 <= 1 + e * d l) by nra.
      replace ((rate k w x l * (1 + e * d l) - rate k w x l) / (rate k w x l * (1 + e * d l)))
        with (e * d l / (1 + e * d l)) by (field; lra).
      apply Rmult_le_reg_r with (1 + e * d l); [lra|].
      replace (e * d l / (1 + e * d l) * (1 + e * d l)) with (e * d l) by (field; lra).
      assert (0 <= (e * d l) * (e * d l) * (1 + 2 * (e * d l))) by (apply Rmult_le_pos; [apply Rle_0_sqr|lra]).
      lra. }
    rewrite sum_scal in G.
    replace (sum n (fun l => pi l * (d l * e - 2 * e * e * (d l * d l))))
      with (e * sum n (fun l => pi l * d l) - 2 * e * e * sum n (fun l => pi l * (d l * d l))) in G
      by (rewrite <- !sum_scal, <- sum_minus; apply sum_ext; intros; ring).
    apply Rmult_le_reg_l with e; lra. }
  assert (N : sum n (fun l => pi l * d l) <= 0).
  { set (q := 2 * sum n (fun l => pi l * (d l * d l))) in *. assert (Q : 0 <= q).
    { assert (0 <= sum n (fun l => pi l * (d l * d l))); [|unfold q; lra]. apply sum_nonneg; intros l Hl.
      apply Rmult_le_pos; [left; auto|apply Rle_0_sqr]. }
    apply Rnot_lt_le. intros P. set (s := sum n (fun l => pi l * d l)) in *.
    assert (Q' : 0 < q) by (specialize (Slope (1 / 2) ltac:(lra)); lra).
    destruct (small (1 / 2) (s / 2) q) as (e & E & E1 & E2); try lra.
    specialize (Slope e ltac:(lra)). lra. }
  rewrite (sum_ext n _ (fun l => pi l * d l + pi l)) by (intros; unfold d; ring). rewrite sum_plus. lra.
Qed.

(* Every allocation with the largest sum of pi_l ln (w_l.x_l) is one of the market, at some prices. *)
Lemma largest_log_rates_equilibrium x : (0 < n)%nat -> all_served x ->
  (forall y, all_served y -> log_rates (rate k w y) <= log_rates (rate k w x)) -> exists p, equilibrium pi w x p.
Proof.
  intros N S Max. pose proof S as ((X & Cap) & U).
  set (v := fun l j => pi l / rate k w x l * w l j).
  assert (V : forall l j, (l < n)%nat -> (j < k)%nat -> 0 <= v l j).
  { intros l j Hl Hj. apply Rmult_le_pos; [|auto]. left. apply Rdiv_lt_0_compat; auto. }
  destruct (finite_choice O k (fun j a => (a < n)%nat /\ forall l, (l < n)%nat -> v l j <= v a j)) as (first & First).
  { intros j Hj. destruct (largest_index n (fun _ => True) (fun l => v l j)) as (a & Ha & _ & Most); [now exists O|].
    exists a; auto. }
  set (p := fun j => v (first j) j).
  assert (P : forall j, (j < k)%nat -> 0 <= p j) by (intros j Hj; apply V; auto; now apply First).
  assert (Worth : forall l g, dot k (v l) g = pi l / rate k w x l * dot k (w l) g) by (intros; apply dot_scal_l).
  assert (Spent : forall l, (l < n)%nat -> dot k (v l) (x l) = pi l).
  { intros l Hl. rewrite Worth. fold (rate k w x l). field. specialize (U l Hl). lra. }
  (* all GPUs to who has the most of them, relative to its rate *)
  assert (Low : dot k p m <= sum n pi).
  { set (y := fun l j => if Nat.eqb l (first j) then m j else 0).
    apply Rle_trans with (sum n (fun l => pi l * (rate k w y l / rate k w x l))).
    - right. transitivity (sum n (fun l => dot k (v l) (y l))).
      + unfold dot. rewrite sum_swap. apply sum_ext; intros j Hj.
        rewrite <- (sum_at n (first j) (p j * m j)) by now apply First.
        apply sum_ext; intros l _. unfold y, p. destruct (Nat.eqb_spec l (first j)) as [->|]; ring.
      + apply sum_ext; intros l _. rewrite Worth. unfold rate, Rdiv. ring.
    - apply slope_of_log_rates; auto. split.
      + intros l j _ Hj. unfold y. destruct Nat.eqb; [auto|lra].
      + intros j Hj. right. unfold used, y. now apply sum_at, First. }
  assert (High : forall l, (l < n)%nat -> dot k (v l) (x l) <= dot k p (x l)).
  { intros l Hl. apply dot_le; [|auto]. intros j Hj. now apply First. }
  assert (Bought : sum n (fun l => dot k p (x l)) <= dot k p m) by (rewrite dot_used; now apply dot_le_r).
  assert (Total : sum n (fun l => dot k (v l) (x l)) = sum n pi) by (apply sum_ext; auto).
  exists p. split.
  - now split.
  - exact P.
  - intros l Hl. rewrite <- (sum_le_eq n _ _ High) by (auto; lra). right. auto.
  - intros l g Hl G Budget. specialize (U l Hl). specialize (Pi l Hl).
    assert (D : dot k (v l) g <= dot k p g) by (apply dot_le; auto; intros j Hj; now apply First).
    rewrite Worth in D. apply Rmult_le_reg_l with (pi l / rate k w x l); [now apply Rdiv_lt_0_compat|].
    replace (pi l / rate k w x l * rate k w x l) with (pi l) by (field; lra). lra.
  - intros j Hj Pj. assert (Each : forall j, (j < k)%nat -> p j * used n x j <= p j * m j).
    { intros i Hi. apply Rmult_le_compat_l; auto. }
    assert (Sum : sum k (fun j => p j * m j) <= sum k (fun j => p j * used n x j)).
    { fold (dot k p m) (dot k p (used n x)). rewrite <- dot_used.
      assert (sum n (fun l => dot k (v l) (x l)) <= sum n (fun l => dot k p (x l))) by now apply sum_le.
      lra. }
    pose proof (sum_le_eq k _ _ Each Sum j Hj) as E. cbn in E. apply Rmult_eq_reg_l with (p j); lra.
Qed.

Lemma equilibrium_exists : (0 < n)%nat -> (exists x, all_served x) -> exists x p, equilibrium pi w x p.
Proof.
  intros N Some. destruct (largest_log_rates N Some) as (x & S & Max).
  destruct (largest_log_rates_equilibrium x N S Max) as (p & E). now exists x, p.
Qed.

End Existence.

(* -- The order of the totals -- *)

(* Claim oef/totals-equal-budgets: total(non-cooperative) <= total(equal budgets) <= total(cooperative); also with
   weights as budgets. *)
Theorem totals_equal_budgets pi w x t y p z : weights n pi -> nonneg n k w ->
  noncooperative n k m pi w x t -> equilibrium pi w y p -> cooperative n k m pi w z ->
  total n k w x <= total n k w y <= total n k w z.
Proof.
  intros Pi W (L & _) E (_ & _ & Max). split.
  2: { apply Max; [apply E|now apply market_envy_free with p]. }
  destruct (Nat.eq_dec n 0) as [->|N]; [right; reflexivity|].
  assert (T : 0 <= t) by (apply (level_nonneg n k m pi w x); auto; lia).
  rewrite (level_total n k m pi w x t L). destruct L as (F & R). pose proof F as (X & Cap).
  assert (Each : forall l, (l < n)%nat -> 2 * t * pi l - t * dot k p (x l) <= rate k w y l).
  { intros l Hl. pose proof (per_budget pi w y p Pi W E l (x l) Hl (fun j => X l j Hl)) as B. fold (rate k w x l) in B.
    rewrite R in B by auto. specialize (Pi l Hl). set (c := dot k p (x l)) in *. set (u := rate k w y l) in *.
    assert (C : 0 <= c) by (apply dot_nonneg; [apply E|auto]).
    assert (U : 0 <= u) by (apply rate_nonneg with n; auto; apply E).
    assert (TC : 0 <= t * c) by now apply Rmult_le_pos.
    apply Rnot_lt_le. intros Lt. assert (S : 0 <= u + t * c < 2 * (t * pi l)) by lra.
    assert (Sq : (u + t * c) * (u + t * c) < 2 * (t * pi l) * (2 * (t * pi l))) by (apply Rmult_le_0_lt_compat; lra).
    assert (0 <= (u - t * c) * (u - t * c)) by apply Rle_0_sqr.
    assert (t * (pi l * (t * pi l)) <= t * (u * c)) by (apply Rmult_le_compat_l; auto). lra. }
  assert (S : sum n (fun l => 2 * t * pi l - t * dot k p (x l)) <= total n k w y) by now apply sum_le.
  rewrite sum_minus, !sum_scal, dot_used in S.
  assert (C : dot k p (used n x) <= sum n pi).
  { apply Rle_trans with (dot k p m); [apply dot_le_r; [apply E|exact Cap]|now apply income with w y]. }
  apply Rmult_le_compat_l with (r := t) in C; lra.
Qed.

(* Claim oef/totals: total(non-cooperative) <= total(cooperative) <= total(sharing incentive only) <= total(free);
   for equal weights, and for any others. *)
Theorem totals_in_order pi w x t y z v : weights n pi -> nonneg n k w ->
  noncooperative n k m pi w x t -> cooperative n k m pi w y -> largest_sharing_total n k m pi w z ->
  largest_total n k m w v ->
  total n k w x <= total n k w y /\ total n k w y <= total n k w z /\ total n k w z <= total n k w v.
Proof.
  intros Pi W X Y Z V. pose proof X as (L & _). pose proof L as ((Xs & Cap) & R). split; [|split].
  - assert (Ty : 0 <= total n k w y) by (apply sum_nonneg; intros; apply rate_nonneg with n; auto; apply Y).
    destruct (Nat.eq_dec n 0) as [->|N]; [right; reflexivity|].
    assert (T : 0 <= t) by (apply (level_nonneg n k m pi w x); auto; lia). destruct T as [T|<-].
    + assert (M : forall j, (j < k)%nat -> 0 <= m j).
      { intros j Hj. apply Rle_trans with (used n x j); [|auto]. apply sum_nonneg; auto. }
      destruct (equilibrium_exists pi w Pi W M) as (e & p & E); [lia| |].
      * exists x. split; [now split|]. intros l Hl. rewrite R by auto. apply Rmult_lt_0_compat; auto.
      * destruct (totals_equal_budgets pi w x t e p y Pi W X E Y). lra.
    + rewrite (level_total n k m pi w x 0 L). lra.
  - apply Z; [apply Y|now apply cooperative_sharing].
  - apply V, Z.
Qed.

End Market.

(* -- The hypotheses can be met -- *)

Lemma sample_equilibrium : exists x p, equilibrium 2 2 one_each one_two sample x p.
Proof.
  apply equilibrium_exists; [apply one_two_weights|apply sample_nonneg; lia|apply one_each_nonneg|lia|].
  exists (split_by_weight 2 one_each one_two). split.
  - apply split_feasible; [lia|apply one_two_weights|apply one_each_nonneg].
  - intros l Hl. unfold rate, split_by_weight. rewrite dot_parts. apply Rmult_lt_0_compat.
    + apply part_of_all; [apply one_two_weights|auto].
    + each l; unfold sample; calculate.
Qed.

Example split_envy_free_met : can_be_met split_envy_free.
Proof. intros H. exact (H 2%nat 2%nat one_each _ sample (one_two_weights 2)). Qed.

Example split_sharing_incentive_met : can_be_met split_sharing_incentive.
Proof. intros H. exact (H 2%nat 2%nat one_each one_two sample). Qed.

Example split_reports_met : can_be_met split_reports.
Proof. intros H. apply (H 2%nat 2%nat one_each one_two sample sample 0%nat). lia. Qed.

Example market_envy_free_met : can_be_met market_envy_free.
Proof.
  intros H. destruct sample_equilibrium as (x & p & E).
  exact (H _ _ _ _ _ _ _ (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) E).
Qed.

Example market_sharing_met : can_be_met market_sharing.
Proof.
  intros H. destruct sample_equilibrium as (x & p & E).
  exact (H _ _ _ _ _ _ _ (one_two_weights 2) E).
Qed.

Example market_pareto_met : can_be_met market_pareto.
Proof.
  intros H. destruct sample_equilibrium as (x & p & E).
  refine (H _ _ _ _ _ _ _ (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) _ E).
  intros l Hl. exists 0%nat. split; [lia|]. apply (sample_positive 2); lia.
Qed.

Example totals_equal_budgets_met : can_be_met totals_equal_budgets.
Proof.
  intros H. destruct sample_equilibrium as (y & p & E).
  destruct (sample_noncooperative one_two (one_two_weights 2)) as (x & t & X).
  destruct (sample_cooperative 2 one_two) as (z & Z); [lia|].
  exact (H _ _ _ _ _ _ _ _ _ _ (one_two_weights 2) (sample_nonneg 2 ltac:(lia)) X E Z).
Qed.

Example totals_in_order_met : can_be_met totals_in_order.
Proof.
  intros H. assert (W := sample_nonneg 2 ltac:(lia)). assert (M := one_each_nonneg 2).
  destruct (sample_noncooperative one_two (one_two_weights 2)) as (x & t & X).
  destruct (sample_cooperative 2 one_two) as (y & Y); [lia|].
  destruct (largest_sharing_total_exists 2 2 one_each one_two sample ltac:(lia) (one_two_weights 2) W M) as (z & Z).
  destruct (largest_total_exists 2 2 one_each sample W M) as (v & V).
  exact (H _ _ _ _ _ _ _ _ _ _ (one_two_weights 2) W X Y Z V).
Qed.
