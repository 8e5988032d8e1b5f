(* Hadar: problems P1 to P3, Algorithms 1 and 2, and Theorems 1 and 2; HadarE: copies of jobs and Theorem 3.
   Slots, servers, GPU types, jobs, schedules and nodes are numbered from 0, so the last slot is T - 1. *)
From Coq Require Import Reals Lra Lia PeanoNat ZArith List Bool Classical.
From Coq Require FinFun.
From Hetopt Require Linear.
From Hetopt Require Import Sums Hypotheses.
Import ListNotations.
Open Scope R_scope.

(* -- Finite searches ----------------------------------------------------------------------------------------------- *)

Fixpoint product (n : nat) (f : nat -> nat) : nat := match n with O => 1%nat | S n => (product n f * f n)%nat end.

Lemma functions_length {A} (d : A) values n : length (functions d values n) = product n (fun i => length (values i)).
Proof.
  induction n; [reflexivity|]. cbn [functions product]. rewrite <- IHn. generalize (functions d values n) as l.
  induction l as [|f l IH]; [reflexivity|]. cbn [flat_map length]. rewrite app_length, map_length, IH. cbn. lia.
Qed.

(* The least of the positive f i, i < n; 0 if there is none. *)
Fixpoint least_positive (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S n => let m := least_positive n f in
      if Rlt_dec 0 (f n) then if Rlt_dec 0 m then Rmin m (f n) else f n else m
  end.

Lemma least_positive_spec n f : 0 <= least_positive n f /\
  (forall i, (i < n)%nat -> 0 < f i -> 0 < least_positive n f <= f i) /\
  (0 < least_positive n f -> exists i, (i < n)%nat /\ f i = least_positive n f).
Proof.
  induction n as [|n (N & L & E)]; cbn; [repeat split; [lra|lia|lia|lra]|].
  destruct (Rlt_dec 0 (f n)) as [P|P]; [destruct (Rlt_dec 0 (least_positive n f)) as [Q|Q]|].
  - assert (M : 0 < Rmin (least_positive n f) (f n)) by now apply Rmin_glb_lt.
    split; [lra|]. split.
    + intros i I F. split; [auto|]. destruct (Nat.eq_dec i n) as [->|]; [apply Rmin_r|].
      apply Rle_trans with (least_positive n f); [apply Rmin_l|apply L; [lia|auto]].
    + intros _. unfold Rmin; destruct Rle_dec; [destruct (E Q) as (i & I & F); exists i; auto|exists n; auto].
  - split; [lra|]. split; [|exists n; auto].
    intros i I F. destruct (Nat.eq_dec i n) as [->|]; [lra|]. destruct (L i); [lia|auto|lra].
  - split; [auto|]. split.
    + intros i I F. apply L; [|auto]. destruct (Nat.eq_dec i n) as [->|]; [lra|lia].
    + intros Q. destruct (E Q) as (i & I & F); exists i; auto.
Qed.

(* -- Prices of a cell with c GPUs ---------------------------------------------------------------------------------- *)

(* eq. (5): U_min (U_max / U_min)^(g / c) with g GPUs in use *)
Definition price (low high c g : R) : R := low * Rpower (high / low) (g / c).
(* Definition 1, for a step from g to g' GPUs *)
Definition allocation_cost (alpha c : R) (k : R -> R) (g g' : R) : Prop := k g * (g' - g) >= c / alpha * (k g' - k g).
(* Definition 2: k dg >= c / alpha dk, so k >= c / alpha (dk / dg) *)
Definition differential_allocation_cost (alpha c : R) (k : R -> R) : Prop :=
  forall g, exists slope, derivable_pt_lim k g slope /\ k g >= c / alpha * slope.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [L| ->]; [left; now apply exp_increasing|lra]. Qed.

Lemma price_pos low high c g : 0 < low -> 0 < price low high c g.
Proof. intros P. apply Rmult_lt_0_compat; [auto|apply exp_pos]. Qed.

Lemma price_zero low high c : price low high c 0 = low.
Proof. unfold price, Rpower, Rdiv. now rewrite !Rmult_0_l, exp_0, Rmult_1_r. Qed.

Lemma ratio_ge_1 low high : 0 < low <= high -> 1 <= high / low.
Proof. intros (P & L). apply Rmult_le_reg_r with low; [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. Qed.

Lemma ln_ratio low high : 0 < low <= high -> 0 <= ln (high / low).
Proof.
  intros L. pose proof (ratio_ge_1 _ _ L) as [G|G]; [|rewrite <- G, ln_1; lra].
  rewrite <- ln_1. left. apply ln_increasing; lra.
Qed.

Lemma price_le low high c g g' : 0 < low <= high -> 0 <= c -> g <= g' -> price low high c g <= price low high c g'.
Proof.
  intros L C G. apply Rmult_le_compat_l; [lra|]. apply exp_le, Rmult_le_compat_r; [now apply ln_ratio|].
  apply Rmult_le_compat_r; [|auto]. destruct C as [C| <-]; [left; now apply Rinv_0_lt_compat|rewrite Rinv_0; lra].
Qed.

Lemma price_full low high c : 0 < low -> 0 < high -> 0 < c -> price low high c c = high.
Proof.
  intros L H C. unfold price. replace (c / c) with 1 by (field; lra).
  rewrite Rpower_1; [field; lra|now apply Rdiv_lt_0_compat].
Qed.

(* A step of s c GPUs multiplies the price by e^(a s). *)
Lemma price_step low high c g s : c <> 0 ->
  price low high c (g + s * c) = price low high c g * exp (ln (high / low) * s).
Proof. intros C. unfold price, Rpower. rewrite Rmult_assoc, <- exp_plus. do 2 f_equal. field. auto. Qed.

(* exp is strictly convex: its chord from 0 to y *)
Lemma chord t y : 0 < t < 1 -> 0 < y -> exp (t * y) - 1 < t * (exp y - 1).
Proof.
  intros T Y. set (s := t * y). assert (S0 : 0 < s < y) by (unfold s; nra). assert (E0 : 0 < exp s) by apply exp_pos.
  assert (A : exp y = exp s * exp (y - s)) by (rewrite <- exp_plus; f_equal; ring).
  assert (B : 1 = exp s * exp (- s)) by (rewrite <- exp_plus, Rplus_opp_r, exp_0; reflexivity).
  assert (A1 : 1 + (y - s) < exp (y - s)) by (apply exp_ineq1; lra).
  assert (B1 : 1 + - s < exp (- s)) by (apply exp_ineq1; lra).
  assert (A2 : exp s * (1 + (y - s)) < exp y) by (rewrite A; now apply Rmult_lt_compat_l).
  assert (B2 : exp s * (1 + - s) < 1) by (rewrite B at 2; now apply Rmult_lt_compat_l).
  assert (A3 : t * (exp s * (1 + (y - s))) < t * exp y) by (apply Rmult_lt_compat_l; lra).
  assert (B3 : (1 - t) * (exp s * (1 + - s)) < (1 - t) * 1) by (apply Rmult_lt_compat_l; lra).
  assert (E : exp s = t * (exp s * (1 + (y - s))) + (1 - t) * (exp s * (1 + - s))) by (unfold s; ring). lra.
Qed.

(* Claim hadar/lemma-3: with alpha = ln (U_max / U_min) > 0 the price (5) keeps the differential allocation-cost
   relation. It also keeps it with max(1, alpha). *)
Theorem lemma_3 low high c : 0 < low -> 0 < high -> 0 < c -> 0 < ln (high / low) ->
  differential_allocation_cost (ln (high / low)) c (price low high c) /\
  differential_allocation_cost (Rmax 1 (ln (high / low))) c (price low high c).
Proof.
  intros L H C A. set (a := ln (high / low)) in *.
  assert (Dk : forall g, derivable_pt_lim (price low high c) g (a / c * price low high c g)).
  { intros g. unfold price, Rpower. fold a.
    replace (a / c * (low * exp (g / c * a))) with (low * (exp (g / c * a) * (1 / c * a))) by (field; lra).
    apply (derivable_pt_lim_scal (fun g => exp (g / c * a))).
    apply (derivable_pt_lim_comp (fun g => g / c * a) exp); [|apply derivable_pt_lim_exp].
    replace (1 / c * a) with (a / c * 1) by (field; lra).
    apply (derivable_pt_lim_ext (fun g => a / c * id g)); [intros; unfold id; field; lra|].
    apply derivable_pt_lim_scal, derivable_pt_lim_id. }
  assert (K : forall alpha, a <= alpha -> differential_allocation_cost alpha c (price low high c)).
  { intros alpha G g. exists (a / c * price low high c g). split; [apply Dk|].
    pose proof (price_pos low high c g L) as P.
    replace (c / alpha * (a / c * price low high c g)) with (a / alpha * price low high c g) by (field; lra).
    apply Rle_ge. rewrite <- (Rmult_1_l (price low high c g)) at 2. apply Rmult_le_compat_r; [lra|].
    apply Rmult_le_reg_r with alpha; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  split; apply K; [lra|apply Rmax_r].
Qed.

Example lemma_3_met : can_be_met lemma_3.
Proof. intros H. apply (H 1 4 2); try lra. rewrite <- ln_1. apply ln_increasing; lra. Qed.

(* Claim hadar/step-factor: a step of s c GPUs keeps the allocation-cost relation if and only if
   alpha >= (e^(a s) - 1) / s, a = ln (U_max / U_min) > 0; that grows with s and is above a for every s > 0. *)
Theorem step_factor low high c : 0 < low -> 0 < c -> 0 < ln (high / low) ->
  let f s := (exp (ln (high / low) * s) - 1) / s in
  (forall g s alpha, 0 < s -> 0 < alpha ->
    (allocation_cost alpha c (price low high c) g (g + s * c) <-> alpha >= f s)) /\
  (forall s s', 0 < s < s' -> f s < f s') /\ (forall s, 0 < s -> ln (high / low) < f s).
Proof.
  intros L C A f. set (a := ln (high / low)) in *. split; [|split].
  - intros g s alpha S0 P. unfold allocation_cost. rewrite price_step by lra. fold a. unfold f.
    set (e := exp (a * s)). pose proof (price_pos low high c g L) as K. set (k := price low high c g) in *. clearbody k.
    assert (F : (e - 1) / s * s = e - 1) by (field; lra). set (q := (e - 1) / s) in *.
    assert (E : c / alpha * (k * e - k) = k * c * s * (q / alpha)).
    { replace (k * e - k) with (k * (q * s)) by (rewrite F; ring). field; lra. }
    rewrite E. replace (k * (g + s * c - g)) with (k * c * s * 1) by ring.
    assert (M : 0 < k * c * s) by (repeat apply Rmult_lt_0_compat; auto).
    assert (Q : q / alpha * alpha = q) by (field; lra). split; intros I; apply Rge_le in I; apply Rle_ge.
    + apply Rmult_le_reg_l in I; [|auto]. apply Rmult_le_compat_r with (r := alpha) in I; lra.
    + apply Rmult_le_compat_l; [lra|]. apply Rmult_le_reg_r with alpha; lra.
  - intros s s' (S0 & S1). unfold f. assert (T : 0 < s / s' < 1).
    { split; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_lt_reg_r with s'; [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
    pose proof (chord (s / s') (a * s') T ltac:(nra)) as Ch.
    replace (s / s' * (a * s')) with (a * s) in Ch by (field; lra).
    apply Rmult_lt_reg_r with s; [auto|]. replace ((exp (a * s) - 1) / s * s) with (exp (a * s) - 1) by (field; lra).
    replace ((exp (a * s') - 1) / s' * s) with (s / s' * (exp (a * s') - 1)) by (field; lra). exact Ch.
  - intros s S0. unfold f. apply Rmult_lt_reg_r with s; [auto|].
    replace ((exp (a * s) - 1) / s * s) with (exp (a * s) - 1) by (field; lra).
    pose proof (exp_ineq1 (a * s) ltac:(nra)). lra.
Qed.

Example step_factor_met : can_be_met step_factor.
Proof. intros H. apply (H 1 4 2); try lra. rewrite <- ln_1. apply ln_increasing; lra. Qed.

(* -- Jobs of P1 ---------------------------------------------------------------------------------------------------- *)

(* W_j, E_j N_j, a_j, X_j^r, and U_j as a function of the completion time in slots *)
Record job_data := Job {
  workers : nat; iterations : R; arrival : nat; throughput : nat -> R; utility : nat -> R
}.

(* min {X r | r in l}; 0 for the empty list *)
Definition slowest (X : nat -> R) (l : list nat) : R :=
  match l with [] => 0 | r :: l => fold_right (fun i m => Rmin (X i) m) (X r) l end.

(* the last t < n with p t; 0 if there is none *)
Fixpoint last_of (n : nat) (p : nat -> bool) : nat :=
  match n with O => O | S n => if p n then n else last_of n p end.

(* -- Cells: a GPU type on a server in a slot ----------------------------------------------------------------------- *)

Section Cluster.
Variables slots servers types : nat.    (* T, H, R *)
Variable c : nat -> nat -> nat.         (* c_h^r: GPUs of each type on each server *)
Variable jobs : nat.                    (* J *)

(* w_h^r(t): GPUs in each slot, on each server, of each type. *)
Definition allocation := nat -> nat -> nat -> nat.
Definition cell (t h r : nat) : Prop := (t < slots)%nat /\ (h < servers)%nat /\ (r < types)%nat.
(* sum_t sum_h sum_r f(t, h, r) *)
Definition total (f : nat -> nat -> nat -> R) : R :=
  sum slots (fun t => sum servers (fun h => sum types (fun r => f t h r))).

Lemma total_le f g : (forall t h r, cell t h r -> f t h r <= g t h r) -> total f <= total g.
Proof. intros L. apply sum_le; intros t Ht; apply sum_le; intros h Hh; apply sum_le; intros r Hr; now apply L. Qed.

Lemma total_ext f g : (forall t h r, cell t h r -> f t h r = g t h r) -> total f = total g.
Proof. intros E. apply Rle_antisym; apply total_le; intros t h r C; rewrite (E t h r C); lra. Qed.

Lemma total_plus f g : total (fun t h r => f t h r + g t h r) = total f + total g.
Proof.
  unfold total. rewrite <- sum_plus. apply sum_ext; intros. rewrite <- sum_plus. apply sum_ext; intros. apply sum_plus.
Qed.

Lemma total_scal x f : total (fun t h r => x * f t h r) = x * total f.
Proof.
  unfold total. rewrite <- sum_scal. apply sum_ext; intros. rewrite <- sum_scal. apply sum_ext; intros. apply sum_scal.
Qed.

Lemma total_minus f g : total (fun t h r => f t h r - g t h r) = total f - total g.
Proof.
  replace (total f - total g) with (total f + -1 * total g) by ring. rewrite <- total_scal, <- total_plus.
  apply total_ext; intros; ring.
Qed.

Lemma total_sum n f : total (fun t h r => sum n (fun i => f i t h r)) = sum n (fun i => total (f i)).
Proof.
  unfold total. rewrite (sum_swap n slots). apply sum_ext; intros t _. rewrite (sum_swap n servers).
  apply sum_ext; intros h _. apply sum_swap.
Qed.

Lemma total_nonneg f : (forall t h r, cell t h r -> 0 <= f t h r) -> 0 <= total f.
Proof.
  intros N. apply sum_nonneg; intros t Ht; apply sum_nonneg; intros h Hh; apply sum_nonneg; intros r Hr.
  apply N; repeat split; auto.
Qed.

Lemma total_term f t h r : (forall t h r, cell t h r -> 0 <= f t h r) -> cell t h r -> f t h r <= total f.
Proof.
  intros N (Ht & Hh & Hr).
  assert (N1 : forall t h, (t < slots)%nat -> (h < servers)%nat -> 0 <= sum types (f t h))
    by (intros; apply sum_nonneg; intros; apply N; repeat split; auto).
  apply Rle_trans with (sum types (f t h)); [apply sum_term; auto; intros; apply N; repeat split; auto|].
  apply Rle_trans with (sum servers (fun h => sum types (f t h)));
    [apply (sum_term servers (fun h => sum types (f t h))); auto|].
  apply (sum_term slots (fun t => sum servers (fun h => sum types (f t h)))); auto. intros; apply sum_nonneg; auto.
Qed.

(* Cells in one sequence. *)
Definition cells : nat := (slots * (servers * types))%nat.
Definition index (t h r : nat) : nat := (t * (servers * types) + (h * types + r))%nat.
Definition slot_of (i : nat) : nat := (i / (servers * types))%nat.
Definition server_of (i : nat) : nat := (i mod (servers * types) / types)%nat.
Definition type_of (i : nat) : nat := (i mod (servers * types) mod types)%nat.
Definition at_index {A} (f : nat -> nat -> nat -> A) (i : nat) : A := f (slot_of i) (server_of i) (type_of i).

Lemma at_index_of {A} (f : nat -> nat -> nat -> A) t h r : cell t h r -> at_index f (index t h r) = f t h r.
Proof.
  intros (Ht & Hh & Hr). assert (L : (h * types + r < servers * types)%nat) by nia.
  unfold at_index, slot_of, server_of, type_of, index.
  rewrite Nat.div_add_l, (Nat.div_small (_ + _)), Nat.add_0_r by lia.
  rewrite (Nat.add_comm (t * _)), Nat.mod_add, (Nat.mod_small (_ + _)) by lia.
  now rewrite Nat.div_add_l, Nat.div_small, Nat.add_0_r, Nat.add_comm, Nat.mod_add, Nat.mod_small by lia.
Qed.

Lemma index_lt t h r : cell t h r -> (index t h r < cells)%nat.
Proof.
  intros (Ht & Hh & Hr). unfold index, cells. assert (L : (h * types + r < servers * types)%nat) by nia. nia.
Qed.

Lemma index_onto i : (i < cells)%nat -> exists t h r, cell t h r /\ i = index t h r.
Proof.
  intros I. unfold cells in I. exists (slot_of i), (server_of i), (type_of i).
  assert (N : (servers * types <> 0)%nat) by (intros N; rewrite N in I; lia).
  assert (T : (types <> 0)%nat) by (intros ->; lia). unfold index, slot_of, server_of, type_of, cell.
  pose proof (Nat.mod_upper_bound i (servers * types) N). repeat split.
  - apply Nat.div_lt_upper_bound; lia.
  - apply Nat.div_lt_upper_bound; lia.
  - now apply Nat.mod_upper_bound.
  - rewrite (Nat.mul_comm (_ / types)), <- (Nat.div_mod_eq (i mod _)), Nat.mul_comm. apply Nat.div_mod_eq.
Qed.

Lemma sum_cells f : sum cells f = total (fun t h r => f (index t h r)).
Proof.
  unfold cells, total. rewrite sum_blocks. apply sum_ext; intros t _. rewrite sum_blocks.
  apply sum_ext; intros h _. apply sum_ext; intros r _. f_equal; unfold index; lia.
Qed.

(* -- P2 and P3 ----------------------------------------------------------------------------------------------------- *)

Section Schedules.
Variable n : nat -> nat.                     (* number of schedules of each job, |S_j| *)
Variable w : nat -> nat -> allocation.       (* w_jh^rs(t), of job j and schedule s *)
Variable U : nat -> nat -> R.                (* U_j(f_js - a_j) *)

(* sum_j sum_s w_jh^rs(t) y_js over the jobs before j *)
Definition used (y : nat -> nat -> R) (j t h r : nat) : R :=
  sum j (fun i => sum (n i) (fun s => INR (w i s t h r) * y i s)).
(* eqs. (2a), (2b), and y >= 0: P2 without (2c) *)
Definition relaxed (y : nat -> nat -> R) : Prop :=
  (forall j s, (j < jobs)%nat -> (s < n j)%nat -> 0 <= y j s) /\
  (forall t h r, cell t h r -> used y jobs t h r <= INR (c h r)) /\
  (forall j, (j < jobs)%nat -> sum (n j) (y j) <= 1).
(* eq. (2c) *)
Definition binary (y : nat -> nat -> R) : Prop :=
  forall j s, (j < jobs)%nat -> (s < n j)%nat -> y j s = 0 \/ y j s = 1.
Definition p2 (y : nat -> nat -> R) : Prop := relaxed y /\ binary y.
(* The objective (2) over the jobs before j. *)
Definition p2_value_before (y : nat -> nat -> R) (j : nat) : R := sum j (fun i => sum (n i) (fun s => U i s * y i s)).
(* eq. (2) *)
Definition p2_value (y : nat -> nat -> R) : R := p2_value_before y jobs.
Definition optimum (opt : R) : Prop := (exists y, p2 y /\ p2_value y = opt) /\ forall y, p2 y -> p2_value y <= opt.

(* phi_j(s): utility less cost at prices k *)
Definition phi (k : nat -> nat -> nat -> R) (j s : nat) : R := U j s - total (fun t h r => k t h r * INR (w j s t h r)).
(* eq. (3a) *)
Definition p3 (k : nat -> nat -> nat -> R) (mu : nat -> R) : Prop :=
  (forall j s, (j < jobs)%nat -> (s < n j)%nat -> phi k j s <= mu j) /\
  (forall t h r, cell t h r -> 0 <= k t h r) /\ (forall j, (j < jobs)%nat -> 0 <= mu j).
(* eq. (3) *)
Definition p3_value (k : nat -> nat -> nat -> R) (mu : nat -> R) : R :=
  sum jobs mu + total (fun t h r => k t h r * INR (c h r)).

Lemma used_cost y k j : total (fun t h r => k t h r * used y j t h r) =
  sum j (fun i => sum (n i) (fun s => y i s * total (fun t h r => k t h r * INR (w i s t h r)))).
Proof.
  unfold used. rewrite (total_ext _ (fun t h r =>
    sum j (fun i => sum (n i) (fun s => y i s * (k t h r * INR (w i s t h r)))))).
  - rewrite total_sum. apply sum_ext; intros i _. rewrite total_sum. apply sum_ext; intros s _. apply total_scal.
  - intros t h r _. rewrite <- sum_scal. apply sum_ext; intros i _. rewrite <- sum_scal. apply sum_ext; intros; ring.
Qed.

Lemma weak_duality y k mu : relaxed y -> p3 k mu -> p2_value y <= p3_value k mu.
Proof.
  intros (Y & Cap & One) (Pay & K & Mu). unfold p3_value.
  apply Rle_trans with (sum jobs mu + total (fun t h r => k t h r * used y jobs t h r)).
  - rewrite used_cost, <- sum_plus. apply sum_le; intros j Hj.
    apply Rle_trans with (mu j * sum (n j) (y j) +
      sum (n j) (fun s => y j s * total (fun t h r => k t h r * INR (w j s t h r)))).
    + rewrite <- sum_scal, <- sum_plus. apply sum_le; intros s Hs. specialize (Y j s Hj Hs). specialize (Pay j s Hj Hs).
      unfold phi in Pay. nra.
    + specialize (One j Hj). specialize (Mu j Hj). nra.
  - apply Rplus_le_compat_l, total_le. intros t h r C. apply Rmult_le_compat_l; auto.
Qed.

(* Variables y_js in one sequence: those of job j begin at offset j. *)
Fixpoint offset (j : nat) : nat := match j with O => O | S j => (offset j + n j)%nat end.
Fixpoint place (j i : nat) : nat * nat :=
  match j with O => (O, O) | S j => if i <? offset j then place j i else (j, i - offset j)%nat end.
Definition job_of (i : nat) : nat := fst (place jobs i).
Definition schedule_of (i : nat) : nat := snd (place jobs i).

Lemma place_spec m j s : (j < m)%nat -> (s < n j)%nat ->
  place m (offset j + s) = (j, s) /\ (offset j + s < offset m)%nat.
Proof.
  induction m; intros Hj Hs; [lia|]. cbn [place offset]. destruct (Nat.eq_dec j m) as [->|N].
  - destruct (Nat.ltb_spec (offset m + s) (offset m)); [lia|]. split; [|lia]. f_equal. lia.
  - destruct IHm as (E & L); [lia|auto|]. destruct (Nat.ltb_spec (offset j + s) (offset m)); [split; [auto|lia]|lia].
Qed.

Lemma place_onto m i : (i < offset m)%nat -> exists j s, (j < m)%nat /\ (s < n j)%nat /\ i = (offset j + s)%nat.
Proof.
  induction m; cbn; intros I; [lia|]. destruct (Nat.lt_ge_cases i (offset m)) as [L|G].
  - destruct (IHm L) as (j & s & Hj & Hs & E); exists j, s; repeat split; auto.
  - exists m, (i - offset m)%nat; repeat split; lia.
Qed.

Lemma sum_offset m f : sum (offset m) f = sum m (fun j => sum (n j) (fun s => f (offset j + s)%nat)).
Proof. induction m; [reflexivity|]. cbn. rewrite sum_append, IHm. reflexivity. Qed.

(* P2 without (2c) as max U y, A y <= b, y >= 0: a row for each cell, (2a), and one for each job, (2b). *)
Definition rows : nat := (cells + jobs)%nat.
Definition columns : nat := offset jobs.
Definition matrix (i q : nat) : R :=
  if i <? cells then INR (at_index (w (job_of q) (schedule_of q)) i)
  else if Nat.eqb (i - cells) (job_of q) then 1 else 0.
Definition bounds (i : nat) : R := if i <? cells then INR (at_index (fun _ => c) i) else 1.
Definition gains (q : nat) : R := U (job_of q) (schedule_of q).
Definition y_of (x : nat -> R) (j s : nat) : R := x (offset j + s)%nat.
Definition k_of (z : nat -> R) (t h r : nat) : R := z (index t h r).
Definition mu_of (z : nat -> R) (j : nat) : R := z (cells + j)%nat.

Lemma place_jobs j s : (j < jobs)%nat -> (s < n j)%nat ->
  job_of (offset j + s) = j /\ schedule_of (offset j + s) = s /\ (offset j + s < columns)%nat.
Proof.
  intros Hj Hs. destruct (place_spec jobs j s Hj Hs) as (E & L). unfold job_of, schedule_of. now rewrite E.
Qed.

Lemma row_of_cell x t h r : cell t h r -> dot columns (matrix (index t h r)) x = used (y_of x) jobs t h r.
Proof.
  intros C. unfold dot, columns, used. rewrite sum_offset. apply sum_ext; intros j Hj. apply sum_ext; intros s Hs.
  destruct (place_jobs j s Hj Hs) as (E & F & _). unfold matrix. rewrite E, F.
  pose proof (index_lt t h r C). destruct (Nat.ltb_spec (index t h r) cells); [|lia]. now rewrite at_index_of.
Qed.

Lemma row_of_job x j : (j < jobs)%nat -> dot columns (matrix (cells + j)) x = sum (n j) (y_of x j).
Proof.
  intros Hj. unfold dot, columns. rewrite sum_offset, <- (sum_at jobs j (sum (n j) (y_of x j)) Hj).
  apply sum_ext; intros i Hi. destruct (Nat.eqb_spec i j) as [->|N]; [|apply sum_zero]; [apply sum_ext|]; intros s Hs.
  - destruct (place_jobs j s Hj Hs) as (E & _ & _). unfold matrix. destruct (Nat.ltb_spec (cells + j) cells); [lia|].
    rewrite E. replace (cells + j - cells)%nat with j by lia. rewrite Nat.eqb_refl. unfold y_of. ring.
  - destruct (place_jobs i s Hi Hs) as (E & _ & _). unfold matrix. destruct (Nat.ltb_spec (cells + j) cells); [lia|].
    rewrite E. destruct (Nat.eqb_spec (cells + j - cells) i); [lia|]. ring.
Qed.

Lemma row_of_schedule z j s : (j < jobs)%nat -> (s < n j)%nat ->
  dot rows (fun i => matrix i (offset j + s)) z = total (fun t h r => k_of z t h r * INR (w j s t h r)) + mu_of z j.
Proof.
  intros Hj Hs. destruct (place_jobs j s Hj Hs) as (E & F & _). unfold dot, rows.
  rewrite sum_append, sum_cells. f_equal.
  - apply total_ext; intros t h r C. unfold matrix. rewrite E, F.
    pose proof (index_lt t h r C). destruct (Nat.ltb_spec (index t h r) cells); [|lia].
    rewrite at_index_of by auto. unfold k_of. ring.
  - rewrite <- (sum_at jobs j (mu_of z j) Hj). apply sum_ext; intros i _. unfold matrix. rewrite E.
    destruct (Nat.ltb_spec (cells + i) cells); [lia|]. replace (cells + i - cells)%nat with i by lia.
    destruct (Nat.eqb_spec i j) as [->|]; [unfold mu_of; ring|ring].
Qed.

Lemma relaxed_primal x : relaxed (y_of x) <-> Linear.primal rows columns matrix bounds x.
Proof.
  assert (B : forall t h r, cell t h r -> bounds (index t h r) = INR (c h r)).
  { intros t h r C. unfold bounds. pose proof (index_lt t h r C).
    destruct (Nat.ltb_spec (index t h r) cells); [|lia]. now rewrite at_index_of. }
  assert (B1 : forall j, bounds (cells + j) = 1).
  { intros j. unfold bounds. destruct (Nat.ltb_spec (cells + j) cells); [lia|auto]. }
  split.
  - intros (Y & Cap & One). split.
    + intros q Q. destruct (place_onto jobs q Q) as (j & s & Hj & Hs & ->). now apply Y.
    + intros i I. destruct (Nat.lt_ge_cases i cells) as [L|G].
      * destruct (index_onto i L) as (t & h & r & C & ->). rewrite row_of_cell, B by auto. auto.
      * replace i with (cells + (i - cells))%nat by lia. unfold rows in I.
        rewrite row_of_job, B1 by lia. apply One; lia.
  - intros (X & A). split; [|split].
    + intros j s Hj Hs. apply X, place_jobs; auto.
    + intros t h r C. rewrite <- row_of_cell, <- (B t h r) by auto. apply A.
      unfold rows. pose proof (index_lt t h r C); lia.
    + intros j Hj. rewrite <- row_of_job, <- (B1 j) by auto. apply A. unfold rows; lia.
Qed.

Lemma p3_linear_dual z : p3 (k_of z) (mu_of z) <-> Linear.dual rows columns matrix gains z.
Proof.
  unfold p3, phi. split.
  - intros (Pay & K & Mu). split.
    + intros i I. destruct (Nat.lt_ge_cases i cells) as [L|G].
      * destruct (index_onto i L) as (t & h & r & C & ->). now apply K.
      * unfold rows in I. specialize (Mu (i - cells)%nat ltac:(lia)). unfold mu_of in Mu.
        now replace (cells + (i - cells))%nat with i in Mu by lia.
    + intros q Q. destruct (place_onto jobs q Q) as (j & s & Hj & Hs & ->). rewrite row_of_schedule by auto.
      destruct (place_jobs j s Hj Hs) as (E & F & _). unfold gains. rewrite E, F. specialize (Pay j s Hj Hs). lra.
  - intros (Z & A). split; [|split].
    + intros j s Hj Hs. destruct (place_jobs j s Hj Hs) as (E & F & L). specialize (A _ L).
      rewrite row_of_schedule in A by auto. unfold gains in A. rewrite E, F in A. lra.
    + intros t h r C. apply Z. unfold rows. pose proof (index_lt t h r C); lia.
    + intros j Hj. apply Z. unfold rows; lia.
Qed.

Lemma p2_value_gains x : p2_value (y_of x) = dot columns gains x.
Proof.
  unfold dot, columns. rewrite sum_offset. apply sum_ext; intros j Hj. apply sum_ext; intros s Hs.
  destruct (place_jobs j s Hj Hs) as (E & F & _). unfold gains. now rewrite E, F.
Qed.

Lemma p3_value_bounds z : p3_value (k_of z) (mu_of z) = dot rows bounds z.
Proof.
  unfold dot, rows, p3_value. rewrite sum_append, sum_cells, Rplus_comm. f_equal.
  - apply total_ext; intros t h r C. unfold bounds. pose proof (index_lt t h r C).
    destruct (Nat.ltb_spec (index t h r) cells); [|lia]. rewrite at_index_of by auto. unfold k_of. ring.
  - apply sum_ext; intros j _. unfold bounds. destruct (Nat.ltb_spec (cells + j) cells); [lia|]. unfold mu_of. ring.
Qed.

(* eq. (4): max {0, max_s phi_j(s)} *)
Definition best_payoff (k : nat -> nat -> nat -> R) (j : nat) : R := largest (n j) (phi k j).

Lemma best_payoff_feasible k : (forall t h r, cell t h r -> 0 <= k t h r) -> p3 k (best_payoff k).
Proof. intros K. split; [|split; [exact K|]].
  - intros j s _ Hs. now apply (largest_ge (n j) (phi k j)).
  - intros j _. apply largest_nonneg.
Qed.

Lemma relaxed_zero : relaxed (fun _ _ => 0).
Proof.
  split; [|split]; intros; [lra| |].
  - apply Rle_trans with 0; [right|apply pos_INR]. apply sum_zero; intros i _; apply sum_zero; intros; ring.
  - rewrite sum_zero; [lra|auto].
Qed.

(* Claim hadar/p3-dual: P3 is the dual of the relaxation of P2, and their optima are equal. *)
Theorem p3_dual :
  (forall x, (relaxed (y_of x) <-> Linear.primal rows columns matrix bounds x) /\
    p2_value (y_of x) = dot columns gains x) /\
  (forall z, (p3 (k_of z) (mu_of z) <-> Linear.dual rows columns matrix gains z) /\
    p3_value (k_of z) (mu_of z) = dot rows bounds z) /\
  exists y k mu, relaxed y /\ p3 k mu /\ p2_value y = p3_value k mu /\
    (forall y', relaxed y' -> p2_value y' <= p2_value y) /\
    (forall k' mu', p3 k' mu' -> p3_value k mu <= p3_value k' mu').
Proof.
  split; [intros x; split; [apply relaxed_primal|apply p2_value_gains]|].
  split; [intros z; split; [apply p3_linear_dual|apply p3_value_bounds]|].
  assert (P0 : p3 (fun _ _ _ => 0) (best_payoff (fun _ _ _ => 0))) by (apply best_payoff_feasible; intros; lra).
  destruct (Linear.strong_duality rows columns matrix bounds gains (fun _ => 0)
    (p3_value (fun _ _ _ => 0) (best_payoff (fun _ _ _ => 0)))) as (x & z & X & Z & E).
  - apply relaxed_primal, relaxed_zero.
  - intros x X. rewrite <- p2_value_gains. apply weak_duality; [now apply relaxed_primal|auto].
  - apply relaxed_primal in X. apply p3_linear_dual in Z. rewrite <- p2_value_gains, <- p3_value_bounds in E.
    exists (y_of x), (k_of z), (mu_of z). split; [auto|]. split; [auto|]. split; [auto|]. split.
    + intros y Y. rewrite E. now apply weak_duality.
    + intros k mu P. rewrite <- E. now apply weak_duality.
Qed.

(* Claim hadar/p3-bound: at any prices k >= 0, with mu_j = max {0, max_s phi_j(s)}, the objective of P3 is at least the
   optimum of P2. *)
Theorem p3_bound k opt : (forall t h r, cell t h r -> 0 <= k t h r) -> optimum opt -> opt <= p3_value k (best_payoff k).
Proof.
  intros K ((y & (Y & _) & <-) & _). apply weak_duality; [auto|now apply best_payoff_feasible].
Qed.

(* -- Choices of schedules ------------------------------------------------------------------------------------------ *)

(* A schedule for each job, or None, as a solution y of P2. *)
Definition chosen (d : nat -> option nat) (j s : nat) : R :=
  match d j with Some i => if Nat.eqb s i then 1 else 0 | None => 0 end.
Definition choice_of (y : nat -> nat -> R) (j : nat) : option nat :=
  find (fun s => if Req_EM_T (y j s) 1 then true else false) (seq 0 (n j)).

Lemma sum_chosen d j f : (forall s, d j = Some s -> (s < n j)%nat) ->
  sum (n j) (fun s => f s * chosen d j s) = match d j with Some s => f s | None => 0 end.
Proof.
  intros V. unfold chosen. destruct (d j) as [i|]; [|apply sum_zero; intros; ring].
  rewrite <- (sum_at (n j) i (f i)) by auto. apply sum_ext; intros s _. destruct (Nat.eqb_spec s i); subst; ring.
Qed.

(* eq. (2b) *)
Lemma one_schedule d j : (forall s, d j = Some s -> (s < n j)%nat) -> sum (n j) (chosen d j) <= 1.
Proof.
  intros V. rewrite (sum_ext _ _ (fun s => 1 * chosen d j s)), (sum_chosen d j (fun _ => 1)) by (auto; intros; ring).
  destruct (d j); lra.
Qed.

Lemma choice_of_spec y j : p2 y -> (j < jobs)%nat ->
  (forall s, choice_of y j = Some s -> (s < n j)%nat) /\
  (forall s, (s < n j)%nat -> y j s = chosen (choice_of y) j s).
Proof.
  intros ((Y & _ & One) & B) Hj.
  assert (F : forall s, choice_of y j = Some s -> (s < n j)%nat /\ y j s = 1).
  { intros s E. apply find_some in E as (I & E). apply in_seq in I.
    destruct Req_EM_T; [split; [lia|auto]|discriminate]. }
  split; [intros s E; now apply F|]. intros s Hs. unfold chosen. destruct (choice_of y j) as [i|] eqn:E.
  - destruct (F i eq_refl) as (Hi & Yi). destruct (Nat.eqb_spec s i) as [->|N]; [auto|].
    destruct (B j s Hj Hs) as [Z|O]; [auto|exfalso]. specialize (One j Hj).
    assert (2 <= sum (n j) (y j)); [|lra].
    apply Rle_trans with (sum (n j) (fun a => (if Nat.eqb a s then 1 else 0) + (if Nat.eqb a i then 1 else 0))).
    + rewrite sum_plus, !sum_at by auto. lra.
    + apply sum_le; intros a A. specialize (Y j a Hj A).
      destruct (Nat.eqb_spec a s) as [E1|]; destruct (Nat.eqb_spec a i) as [E2|]; subst; try contradiction; lra.
  - destruct (B j s Hj Hs) as [Z|O]; [auto|exfalso].
    assert (I : In s (seq 0 (n j))) by (apply in_seq; lia). apply (find_none _ _ E) in I.
    destruct Req_EM_T; [discriminate|contradiction].
Qed.

Lemma used_ext y y' j t h r : (forall i s, (i < j)%nat -> (s < n i)%nat -> y i s = y' i s) ->
  used y j t h r = used y' j t h r.
Proof. intros E. apply sum_ext; intros i Hi; apply sum_ext; intros s Hs. now rewrite E. Qed.

Lemma p2_ext y y' : (forall j s, (j < jobs)%nat -> (s < n j)%nat -> y j s = y' j s) -> p2 y -> p2 y'.
Proof.
  intros E ((Y & Cap & One) & B). split; [split; [|split]|].
  - intros j s Hj Hs. rewrite <- E; auto.
  - intros t h r C. rewrite <- (used_ext y); auto.
  - intros j Hj. apply Rle_trans with (sum (n j) (y j)); [right; apply sum_ext; intros; rewrite E; auto|auto].
  - intros j s Hj Hs. rewrite <- E; auto.
Qed.

Lemma p2_value_ext y y' : (forall j s, (j < jobs)%nat -> (s < n j)%nat -> y j s = y' j s) -> p2_value y = p2_value y'.
Proof. intros E. apply sum_ext; intros j Hj; apply sum_ext; intros s Hs. now rewrite E. Qed.

(* P2 has an optimum. *)
Lemma optimum_exists : exists opt, optimum opt.
Proof.
  set (values := fun j => None :: map Some (seq 0 (n j))).
  assert (F : forall y, p2 y -> exists d,
    In d (functions None values jobs) /\ p2 (chosen d) /\ p2_value (chosen d) = p2_value y).
  { intros y Y. destruct (functions_complete None values jobs (choice_of y)) as (d & I & E).
    - intros j Hj. destruct (choice_of_spec y j Y Hj) as (V & _). destruct (choice_of y j) as [s|]; [|now left].
      right. apply in_map, in_seq. specialize (V s eq_refl). lia.
    - assert (E' : forall j s, (j < jobs)%nat -> (s < n j)%nat -> y j s = chosen d j s).
      { intros j s Hj Hs. unfold chosen. rewrite E by auto. now apply choice_of_spec. }
      exists d. split; [auto|]. split; [now apply (p2_ext y)|]. apply p2_value_ext. intros; now rewrite E'. }
  assert (Z : p2 (fun _ _ => 0)) by (split; [apply relaxed_zero|intros j s _ _; now left]).
  destruct (best_of_list (functions None values jobs) (fun d => p2 (chosen d)) (fun d => p2_value (chosen d)))
    as (d & I & D & M).
  - destruct (F _ Z) as (d & I & D & _). now exists d.
  - exists (p2_value (chosen d)). split; [now exists (chosen d)|].
    intros y Y. destruct (F y Y) as (e & Ie & De & <-). now apply M.
Qed.

(* -- Algorithm 1 with irrevocable decisions ------------------------------------------------------------------------ *)

Section Algorithm1.
Variable k : nat -> nat -> R -> R.      (* price per GPU of a type on a server, with g GPUs in use *)

(* k_h^r(gamma_h^r(t)) before job j, gamma being the GPUs in use *)
Definition price_before (d : nat -> option nat) (j t h r : nat) : R := k h r (used (chosen d) j t h r).
Definition payoff (d : nat -> option nat) (j s : nat) : R := phi (price_before d j) j s.
(* the first row of (8) *)
Definition fits (d : nat -> option nat) (j s : nat) : Prop :=
  forall t h r, cell t h r -> used (chosen d) j t h r + INR (w j s t h r) <= INR (c h r).
(* The schedules that job j can choose; check: only schedules for which there are free GPUs. *)
Definition offered (check : bool) (d : nat -> option nat) (j s : nat) : Prop :=
  (s < n j)%nat /\ (check = true -> fits d j s).
(* Job j takes a schedule with the largest payoff, if that is positive, eq. (4). *)
Definition decides (check : bool) (d : nat -> option nat) (j : nat) : Prop :=
  match d j with
  | Some s => offered check d j s /\ 0 < payoff d j s /\ forall i, offered check d j i -> payoff d j i <= payoff d j s
  | None => forall i, offered check d j i -> payoff d j i <= 0
  end.
(* The jobs 0, 1, ... arrive in this order, and each decision is kept. *)
Definition algorithm_1 (check : bool) (d : nat -> option nat) : Prop := forall j, (j < jobs)%nat -> decides check d j.

(* mu_j in line 29 of Algorithm 2; P_j, D_j: the objectives (2) and (3) after the decisions on j jobs *)
Definition mu (d : nat -> option nat) (j : nat) : R := match d j with Some s => payoff d j s | None => 0 end.
Definition P (d : nat -> option nat) (j : nat) : R := p2_value_before (chosen d) j.
Definition D (d : nat -> option nat) (j : nat) : R :=
  sum j (mu d) + total (fun t h r => price_before d j t h r * INR (c h r)).
(* the total utility reached *)
Definition ALG (d : nat -> option nat) : R := P d jobs.

(* GPUs and utility of job j *)
Definition takes (d : nat -> option nat) (j t h r : nat) : R :=
  match d j with Some s => INR (w j s t h r) | None => 0 end.
Definition worth (d : nat -> option nat) (j : nat) : R := match d j with Some s => U j s | None => 0 end.

Lemma decided check d j s : decides check d j -> d j = Some s -> (s < n j)%nat.
Proof. intros A E. unfold decides in A. rewrite E in A. apply A. Qed.

Lemma used_step check d j t h r : decides check d j ->
  used (chosen d) (S j) t h r = used (chosen d) j t h r + takes d j t h r.
Proof.
  intros A. cbn. rewrite (sum_chosen d j (fun s => INR (w j s t h r))); [reflexivity|].
  intros s. now apply (decided check).
Qed.

Lemma P_step check d j : decides check d j -> P d (S j) = P d j + worth d j.
Proof. intros A. cbn. rewrite (sum_chosen d j (U j)); [reflexivity|]. intros s. now apply (decided check). Qed.

Lemma P_worth check d j : algorithm_1 check d -> (j <= jobs)%nat -> P d j = sum j (worth d).
Proof.
  intros A. induction j; intros Hj; [reflexivity|]. rewrite (P_step check), IHj by (try apply A; lia). reflexivity.
Qed.

Lemma takes_nonneg d j t h r : 0 <= takes d j t h r.
Proof. unfold takes. destruct (d j); [apply pos_INR|lra]. Qed.

Lemma used_grows check d i j t h r : algorithm_1 check d -> (i <= j <= jobs)%nat ->
  used (chosen d) i t h r <= used (chosen d) j t h r.
Proof.
  intros A (I & J). induction I as [|j I IH]; [lra|]. rewrite (used_step check) by (apply A; lia).
  pose proof (takes_nonneg d j t h r). specialize (IH ltac:(lia)). lra.
Qed.

Lemma mu_nonneg check d j : decides check d j -> 0 <= mu d j.
Proof. unfold decides, mu. destruct (d j); [intros (_ & Pos & _); lra|lra]. Qed.

(* What job j pays. *)
Lemma worth_mu d j : worth d j = mu d j + total (fun t h r => price_before d j t h r * takes d j t h r).
Proof.
  unfold worth, mu, payoff, phi, takes. destruct (d j) as [s|]; [ring|].
  rewrite (total_ext _ (fun _ _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
Qed.

(* The offers to job j depend only on the decisions before. *)
Lemma same_offers check d d' j : (forall i, (i < j)%nat -> d i = d' i) ->
  (forall s, payoff d' j s = payoff d j s) /\ forall s, offered check d' j s <-> offered check d j s.
Proof.
  intros E. assert (G : forall t h r, used (chosen d') j t h r = used (chosen d) j t h r).
  { intros. apply used_ext; intros i s Hi _. unfold chosen. now rewrite E by lia. }
  split; intros s.
  - unfold payoff, phi. f_equal. apply total_ext; intros t h r _. unfold price_before. now rewrite G.
  - unfold offered, fits. split; intros (V & F); (split; [auto|]); intros Ch t h r C;
      specialize (F Ch t h r C); rewrite G in *; auto.
Qed.

(* Ties can be broken in any way, but some run exists. *)
Lemma run_exists check : exists d, algorithm_1 check d.
Proof.
  cut (forall m, exists d, forall j, (j < m)%nat -> decides check d j); [intros H; apply (H jobs)|].
  induction m as [|m (d & IH)]; [exists (fun _ => None); lia|].
  cut (exists o, decides check (fun i => if Nat.eqb i m then o else d i) m).
  - intros (o & O). exists (fun i => if Nat.eqb i m then o else d i). intros j Hj.
    destruct (Nat.eq_dec j m) as [->|Ne]; [auto|]. specialize (IH j ltac:(lia)).
    destruct (same_offers check d (fun i => if Nat.eqb i m then o else d i) j) as (Pay & Off).
    { intros i Hi. destruct (Nat.eqb_spec i m); [lia|auto]. }
    unfold decides in *. destruct (Nat.eqb_spec j m); [lia|]. destruct (d j) as [s|].
    + destruct IH as (O1 & Q & M). rewrite Off, Pay. split; [auto|]. split; [auto|].
      intros i Hi. rewrite Pay. apply M, Off, Hi.
    + intros i Hi. rewrite Pay. apply IH, Off, Hi.
  - assert (Same : forall o, (forall s, payoff (fun i => if Nat.eqb i m then o else d i) m s = payoff d m s) /\
      forall s, offered check (fun i => if Nat.eqb i m then o else d i) m s <-> offered check d m s).
    { intros o. apply same_offers. intros i Hi. destruct (Nat.eqb_spec i m); [lia|auto]. }
    unfold decides. rewrite Nat.eqb_refl.
    destruct (classic (exists s, In s (seq 0 (n m)) /\ (offered check d m s /\ 0 < payoff d m s))) as [X|X].
    + destruct (best_of_list _ (fun s => offered check d m s /\ 0 < payoff d m s) (payoff d m) X)
        as (s & _ & (O & Q) & M).
      exists (Some s). destruct (Same (Some s)) as (Pay & Off). rewrite Off, Pay. split; [auto|]. split; [auto|].
      intros i Hi. apply Off in Hi. rewrite Pay.
      destruct (Rlt_dec 0 (payoff d m i)) as [L|L]; [|lra]. apply M; [apply in_seq; destruct Hi; lia|auto].
    + exists None. destruct (Same None) as (Pay & Off). intros i Hi. apply Off in Hi. rewrite Pay.
      apply Rnot_lt_le. intros L. apply X. exists i. split; [|auto]. apply in_seq. destruct Hi. lia.
Qed.

(* Claim hadar/lemma-2: if the allocation-cost relation holds for alpha >= 1, Algorithm 1 ensures
   P_j - P_{j-1} >= (D_j - D_{j-1}) / alpha for all j. *)
Theorem lemma_2 check d alpha : algorithm_1 check d -> 1 <= alpha ->
  (forall j t h r, (j < jobs)%nat -> cell t h r ->
    allocation_cost alpha (INR (c h r)) (k h r) (used (chosen d) j t h r) (used (chosen d) (S j) t h r)) ->
  forall j, (j < jobs)%nat -> P d (S j) - P d j >= / alpha * (D d (S j) - D d j).
Proof.
  intros A One Rel j Hj. specialize (A j Hj). rewrite (P_step check) by auto. rewrite worth_mu. unfold D. cbn [sum].
  assert (T : total (fun t h r => price_before d (S j) t h r * INR (c h r)) -
    total (fun t h r => price_before d j t h r * INR (c h r)) <=
    alpha * total (fun t h r => price_before d j t h r * takes d j t h r)).
  { rewrite <- total_minus, <- total_scal. apply total_le. intros t h r C. specialize (Rel j t h r Hj C).
    unfold allocation_cost in Rel. rewrite (used_step check) in Rel by auto. unfold price_before.
    rewrite (used_step check) by auto. set (g := used (chosen d) j t h r) in *. set (x := takes d j t h r) in *.
    apply Rge_le in Rel. apply Rmult_le_compat_l with (r := alpha) in Rel; [|lra].
    replace (g + x - g) with x in Rel by ring.
    replace (alpha * (INR (c h r) / alpha * (k h r (g + x) - k h r g)))
      with (k h r (g + x) * INR (c h r) - k h r g * INR (c h r)) in Rel by (field; lra). lra. }
  pose proof (mu_nonneg check d j A) as M. apply Rle_ge. apply Rmult_le_reg_l with alpha; [lra|].
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. nra.
Qed.

(* Claim hadar/lemma-1-feasible: if P_j - P_{j-1} >= (D_j - D_{j-1}) / alpha for all jobs with a constant alpha >= 1, if
   P_0 = 0 and D_0 <= OPT / 2, and if the last prices and the payoffs of the jobs are feasible in P3, then Algorithm 1
   is 2 alpha-competitive. *)
Theorem lemma_1_feasible check d alpha opt : algorithm_1 check d -> 1 <= alpha ->
  (forall j, (j < jobs)%nat -> P d (S j) - P d j >= / alpha * (D d (S j) - D d j)) ->
  P d 0 = 0 -> D d 0 <= opt / 2 -> optimum opt -> p3 (price_before d jobs) (mu d) ->
  opt <= 2 * alpha * ALG d.
Proof.
  intros _ One Step P0 D0 ((y & (Y & _) & <-) & _) F. pose proof (weak_duality y _ _ Y F) as W.
  assert (H : forall j, (j <= jobs)%nat -> D d j - D d 0 <= alpha * P d j).
  { induction j; intros Hj; [rewrite P0; lra|]. specialize (Step j Hj). specialize (IHj ltac:(lia)).
    apply Rge_le in Step. apply Rmult_le_compat_l with (r := alpha) in Step; [|lra].
    rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l in Step by lra. lra. }
  specialize (H jobs (Nat.le_refl jobs)). change (p3_value (price_before d jobs) (mu d)) with (D d jobs) in W.
  unfold ALG. lra.
Qed.

End Algorithm1.

(* -- The corrected prices ------------------------------------------------------------------------------------------ *)

Section Corrected.
Variable delta : R.     (* no gang takes more than delta c GPUs of a cell *)

(* U_j^*: the utility of job j alone; 0 if it is infeasible or has no positive utility *)
Definition alone (j : nat) : R := largest (n j) (U j).
(* Sum c: all GPUs *)
Definition gpus : R := sum servers (fun h => sum types (fun r => INR (c h r))).
(* max_j U_j^*, and min_j U_j^* / (2 T Sum c), over the feasible jobs with positive utility *)
Definition U_max : R := largest jobs alone.
Definition U_min : R := least_positive jobs alone / (2 * INR slots * gpus).
(* U_min (U_max / U_min)^(g / ((1 - delta) c)) *)
Definition corrected (h r : nat) (g : R) : R := price U_min U_max ((1 - delta) * INR (c h r)) g.
(* a = ln (U_max / U_min), and alpha' = max(1, (e^(a delta / (1 - delta)) - 1) / delta) *)
Definition log_ratio : R := ln (U_max / U_min).
Definition alpha' : R := Rmax 1 ((exp (log_ratio * delta / (1 - delta)) - 1) / delta).

(* There are slots and GPUs, and some feasible job has a positive utility: so U_min > 0. *)
Definition worthwhile : Prop := (0 < slots)%nat /\ 0 < gpus /\ exists j, (j < jobs)%nat /\ 0 < alone j.
(* Every schedule of S_j fits on the empty cluster. *)
Definition schedules_fit : Prop := forall j s t h r, (j < jobs)%nat -> (s < n j)%nat -> cell t h r ->
  INR (w j s t h r) <= INR (c h r).
Definition gangs_bounded : Prop := 0 < delta < 1 /\ forall j s t h r, (j < jobs)%nat -> (s < n j)%nat -> cell t h r ->
  INR (w j s t h r) <= delta * INR (c h r).

Lemma gpus_total : total (fun _ h r => INR (c h r)) = INR slots * gpus.
Proof. unfold total. apply sum_const. Qed.

Lemma U_min_spec : worthwhile -> 0 < U_min <= U_max /\ 2 * INR slots * gpus * U_min = least_positive jobs alone /\
  forall j, (j < jobs)%nat -> 0 < alone j -> 2 * INR slots * gpus * U_min <= alone j.
Proof.
  intros (T & G & j0 & J0 & P0). destruct (least_positive_spec jobs alone) as (_ & L & _).
  destruct (L j0 J0 P0) as (P1 & L1). pose proof (largest_ge jobs alone j0 J0).
  assert (T1 : 1 <= INR slots) by (apply (le_INR 1); lia).
  assert (G1 : 1 <= gpus).
  { destruct (sum_pos_term _ _ G) as (h & Hh & Gh). destruct (sum_pos_term _ _ Gh) as (r & Hr & Gr).
    assert (1 <= INR (c h r)) by (apply (le_INR 1); apply INR_lt; exact Gr || (apply INR_lt in Gr; lia)).
    apply Rle_trans with (INR (c h r)); [auto|]. apply Rle_trans with (sum types (fun r => INR (c h r))).
    - apply (sum_term types (fun r => INR (c h r))); auto. intros; apply pos_INR.
    - apply (sum_term servers (fun h => sum types (fun r => INR (c h r)))); auto.
      intros; apply sum_nonneg; intros; apply pos_INR. }
  assert (M : 2 <= 2 * INR slots * gpus) by nra.
  assert (E : 2 * INR slots * gpus * U_min = least_positive jobs alone) by (unfold U_min; field; split; lra).
  set (m := 2 * INR slots * gpus) in *. assert (U0 : 0 < U_min) by (apply Rmult_lt_reg_l with m; lra).
  split; [split; [auto|unfold U_max; nra]|]. split; [auto|]. intros j Hj Pj. rewrite E. now apply L.
Qed.

Lemma U_below_max j s : (j < jobs)%nat -> (s < n j)%nat -> U j s <= U_max.
Proof.
  intros Hj Hs. apply Rle_trans with (alone j); [now apply largest_ge|]. now apply (largest_ge jobs alone).
Qed.

(* What a schedule costs on the empty cluster. *)
Lemma first_cost j s : worthwhile -> schedules_fit -> (j < jobs)%nat -> (s < n j)%nat ->
  total (fun t h r => corrected h r 0 * INR (w j s t h r)) <= INR slots * gpus * U_min.
Proof.
  intros W F Hj Hs. destruct (U_min_spec W) as ((P0 & _) & _).
  rewrite <- gpus_total, Rmult_comm, <- total_scal. apply total_le. intros t h r C.
  unfold corrected. rewrite price_zero. apply Rmult_le_compat_l; [lra|]. now apply F.
Qed.

(* Claim hadar/admits-any-corrected: with U_max = max_j U_j^*, U_min = min_j U_j^* / (2 T Sum c), over the feasible jobs
   with positive utility, every feasible job has a positive payoff on the empty cluster. *)
Theorem admits_any_corrected j : worthwhile -> schedules_fit -> (j < jobs)%nat -> 0 < alone j ->
  exists s, (s < n j)%nat /\ 0 < phi (fun _ h r => corrected h r 0) j s.
Proof.
  intros W F Hj Pj. destruct (largest_reached (n j) (U j) Pj) as (s & Hs & E). exists s. split; [auto|].
  destruct (U_min_spec W) as ((P0 & _) & _ & L). specialize (L j Hj Pj). pose proof (first_cost j s W F Hj Hs).
  unfold phi. fold (alone j) in E. lra.
Qed.

Lemma alone_optimum j opt : schedules_fit -> (j < jobs)%nat -> 0 < alone j -> optimum opt -> alone j <= opt.
Proof.
  intros F Hj Pj (_ & M). destruct (largest_reached (n j) (U j) Pj) as (s & Hs & E). fold (alone j) in E.
  set (d := fun i => if Nat.eqb i j then Some s else None).
  assert (V : forall i r, d i = Some r -> (r < n i)%nat).
  { intros i r. unfold d. destruct (Nat.eqb_spec i j) as [->|]; congruence. }
  rewrite <- E. replace (U j s) with (p2_value (chosen d)).
  - apply M. split; [split; [|split]|].
    + intros i r _ _. unfold chosen. destruct (d i); [destruct Nat.eqb|]; lra.
    + intros t h r C. unfold used. rewrite (sum_ext jobs _ (fun i => if Nat.eqb i j then INR (w j s t h r) else 0)).
      * rewrite sum_at by auto. now apply F.
      * intros i _. rewrite (sum_chosen d i (fun s => INR (w i s t h r))) by apply V. unfold d.
        destruct (Nat.eqb_spec i j) as [->|]; auto.
    + intros i _. now apply one_schedule, V.
    + intros i r _ _. unfold chosen. destruct (d i); [destruct Nat.eqb|]; auto.
  - rewrite <- (sum_at jobs j (U j s) Hj). apply sum_ext; intros i _. rewrite (sum_chosen d i (U i)) by apply V.
    unfold d. destruct (Nat.eqb_spec i j) as [->|]; auto.
Qed.

(* Claim hadar/initial-dual-corrected: D_0 <= OPT / 2 for these U_max and U_min. *)
Theorem initial_dual_corrected opt : worthwhile -> schedules_fit -> optimum opt ->
  total (fun _ h r => U_min * INR (c h r)) <= opt / 2.
Proof.
  intros W F O. rewrite total_scal, gpus_total. destruct (U_min_spec W) as (_ & _ & L).
  destruct W as (_ & _ & j & Hj & Pj). specialize (L j Hj Pj). pose proof (alone_optimum j opt F Hj Pj O). lra.
Qed.

Lemma corrected_pos h r g : worthwhile -> 0 < corrected h r g.
Proof. intros W. apply price_pos, U_min_spec, W. Qed.

Lemma corrected_le h r g g' : worthwhile -> delta < 1 -> g <= g' -> corrected h r g <= corrected h r g'.
Proof.
  intros W L G. apply price_le; [apply (U_min_spec W)| |auto]. apply Rmult_le_pos; [lra|apply pos_INR].
Qed.

(* A schedule with a positive payoff fits on the free GPUs. *)
Lemma payoff_fits check d j s : worthwhile -> gangs_bounded -> algorithm_1 corrected check d -> (j < jobs)%nat ->
  (s < n j)%nat -> (forall t h r, cell t h r -> used (chosen d) j t h r <= INR (c h r)) ->
  0 < payoff corrected d j s -> fits d j s.
Proof.
  intros W (Dl & Gang) A Hj Hs Cap Pay t h r C. specialize (Gang j s t h r Hj Hs C). specialize (Cap t h r C).
  destruct (w j s t h r) as [|x] eqn:X; [cbn; lra|]. rewrite <- X in *.
  destruct (Rle_lt_dec ((1 - delta) * INR (c h r)) (used (chosen d) j t h r)) as [Full|]; [exfalso|lra].
  destruct (U_min_spec W) as ((P0 & P1) & _).
  assert (One : 1 <= INR (w j s t h r)) by (rewrite X; apply (le_INR 1); lia).
  assert (Cpos : 0 < INR (c h r)) by nra.
  assert (High : U_max <= corrected h r (used (chosen d) j t h r)).
  { rewrite <- (price_full U_min U_max ((1 - delta) * INR (c h r))) at 1; [|lra|lra|nra].
    apply corrected_le; [auto|lra|auto]. }
  assert (Cost : price_before corrected d j t h r * INR (w j s t h r) <=
    total (fun t h r => price_before corrected d j t h r * INR (w j s t h r))).
  { apply (total_term (fun t h r => price_before corrected d j t h r * INR (w j s t h r))); [|auto].
    intros. apply Rmult_le_pos; [left; now apply corrected_pos|apply pos_INR]. }
  pose proof (U_below_max j s Hj Hs). unfold payoff, phi in Pay. unfold price_before at 1 in Cost. nra.
Qed.

(* Claim hadar/full-server-corrected: with these U_max and U_min, the exponent g / ((1 - delta) c), and no gang taking
   more than delta c GPUs of a cell, delta < 1, no cell exceeds its capacity, even without a check of it. *)
Theorem full_server_corrected check d : worthwhile -> gangs_bounded -> algorithm_1 corrected check d ->
  forall t h r, cell t h r -> used (chosen d) jobs t h r <= INR (c h r).
Proof.
  intros W G A.
  cut (forall j, (j <= jobs)%nat -> forall t h r, cell t h r -> used (chosen d) j t h r <= INR (c h r));
    [intros H; now apply H|].
  induction j as [|j IH]; intros Hj t h r C; [cbn; apply pos_INR|]. specialize (IH ltac:(lia)).
  pose proof (A j ltac:(lia)) as Dec. rewrite (used_step corrected check) by auto. unfold takes.
  destruct (d j) as [s|] eqn:E; [|specialize (IH t h r C); lra]. pose proof (decided corrected check d j s Dec E) as V.
  apply (payoff_fits check d j s); auto. unfold decides in Dec. rewrite E in Dec. apply Dec.
Qed.

(* Definition 1 holds with alpha' for every step of the algorithm. *)
Lemma relation_holds j s t h r g : worthwhile -> gangs_bounded -> (j < jobs)%nat -> (s < n j)%nat -> cell t h r ->
  allocation_cost alpha' (INR (c h r)) (corrected h r) g (g + INR (w j s t h r)).
Proof.
  intros W (Dl & Gang) Hj Hs C. specialize (Gang j s t h r Hj Hs C). destruct (U_min_spec W) as (Um & _).
  assert (One : 1 <= alpha') by apply Rmax_l. set (x := INR (w j s t h r)) in *.
  assert (X : 0 <= x) by apply pos_INR. unfold allocation_cost. apply Rle_ge.
  replace (g + x - g) with x by ring.
  destruct (Rle_lt_or_eq_dec 0 x X) as [Xp|<-]; [|rewrite Rplus_0_r, Rmult_0_r; right; ring].
  pose proof (pos_INR (c h r)). assert (Cp : 0 < INR (c h r)) by nra. set (m := INR (c h r)) in *.
  set (b := log_ratio * delta / (1 - delta)) in *. pose proof (corrected_pos h r g W) as Kp.
  assert (S0 : corrected h r (g + x) = corrected h r g * exp (x / (delta * m) * b)).
  { unfold corrected. fold m. replace x with (x / ((1 - delta) * m) * ((1 - delta) * m)) at 1 by (field; lra).
    rewrite price_step by nra. f_equal. f_equal. fold log_ratio. unfold b. field. repeat split; lra. }
  assert (T : 0 < x / (delta * m) <= 1).
  { split; [apply Rdiv_lt_0_compat; nra|]. apply Rmult_le_reg_r with (delta * m); [nra|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l; nra. }
  assert (B : 0 <= b).
  { unfold b, Rdiv. apply Rmult_le_pos; [apply Rmult_le_pos; [now apply ln_ratio|lra]|].
    left. apply Rinv_0_lt_compat. lra. }
  assert (Ch : exp (x / (delta * m) * b) - 1 <= x / (delta * m) * (exp b - 1)).
  { destruct B as [B|<-]; [|rewrite Rmult_0_r, exp_0; lra]. destruct T as (T0 & [T1|T1]).
    - left. apply chord; lra.
    - rewrite T1, !Rmult_1_l. lra. }
  rewrite S0. set (e := exp (x / (delta * m) * b)) in *. set (k := corrected h r g) in *. clearbody k.
  apply Rmult_le_reg_r with alpha'; [lra|].
  replace (m / alpha' * (k * e - k) * alpha') with (k * (m * (e - 1))) by (field; lra).
  rewrite Rmult_assoc. apply Rmult_le_compat_l; [lra|].
  apply Rle_trans with (x * ((exp b - 1) / delta)); [|apply Rmult_le_compat_l; [lra|apply Rmax_r]].
  replace (x * ((exp b - 1) / delta)) with (m * (x / (delta * m) * (exp b - 1))) by (field; lra).
  apply Rmult_le_compat_l; [lra|exact Ch].
Qed.

Lemma gangs_fit : gangs_bounded -> schedules_fit.
Proof.
  intros (Dl & Gang) j s t h r Hj Hs C. specialize (Gang j s t h r Hj Hs C). pose proof (pos_INR (c h r)). nra.
Qed.

(* The first feasible job with positive utility brings D_0 or more. *)
Lemma first_job check d : worthwhile -> gangs_bounded -> algorithm_1 corrected check d ->
  INR slots * gpus * U_min <= ALG d.
Proof.
  intros W G A. pose proof (gangs_fit G) as F. destruct (U_min_spec W) as ((P0 & _) & _ & L).
  assert (Dl : delta < 1) by apply G.
  assert (Worth : forall j, (j < jobs)%nat -> 0 <= worth d j).
  { intros j Hj. rewrite (worth_mu corrected). apply Rplus_le_le_0_compat; [now apply (mu_nonneg corrected check), A|].
    apply total_nonneg. intros t h r _. apply Rmult_le_pos; [left; now apply corrected_pos|apply takes_nonneg]. }
  unfold ALG. rewrite (P_worth corrected check) by auto.
  cut (exists j, (j < jobs)%nat /\ INR slots * gpus * U_min <= worth d j).
  { intros (j & Hj & B). apply Rle_trans with (worth d j); [auto|]. now apply sum_term. }
  assert (First : exists j, (j < jobs)%nat /\ 0 < alone j /\ forall i, (i < j)%nat -> alone i <= 0).
  { destruct W as (_ & _ & j & Hj & Pj). revert Hj Pj. induction j as [j IH] using lt_wf_ind. intros Hj Pj.
    destruct (classic (exists i, (i < j)%nat /\ 0 < alone i)) as [(i & Hi & Pi)|N]; [apply (IH i); auto; lia|].
    exists j. repeat split; auto. intros i Hi. apply Rnot_lt_le. intros Pi. apply N. now exists i. }
  destruct First as (j & Hj & Pj & Before). exists j. split; [auto|]. specialize (L j Hj Pj).
  assert (Idle : forall i, (i <= j)%nat -> forall t h r, used (chosen d) i t h r = 0).
  { induction i as [|i IH]; intros Hi t h r; [reflexivity|]. specialize (A i ltac:(lia)).
    rewrite (used_step corrected check), IH by (auto; lia). unfold takes, decides in *.
    destruct (d i) as [s|]; [exfalso|ring]. destruct A as ((V & _) & Pay & _).
    assert (U i s <= 0) by (apply Rle_trans with (alone i); [now apply largest_ge|apply Before; lia]).
    assert (0 <= total (fun t h r => price_before corrected d i t h r * INR (w i s t h r))).
    { apply total_nonneg. intros. apply Rmult_le_pos; [left; now apply corrected_pos|apply pos_INR]. }
    unfold payoff, phi in Pay. lra. }
  assert (Pay : forall s, (s < n j)%nat -> U j s - INR slots * gpus * U_min <= payoff corrected d j s <= U j s).
  { intros s Hs. unfold payoff, phi. rewrite (total_ext _ (fun t h r => corrected h r 0 * INR (w j s t h r))).
    - pose proof (first_cost j s W F Hj Hs).
      assert (0 <= total (fun t h r => corrected h r 0 * INR (w j s t h r))); [|lra].
      apply total_nonneg. intros. apply Rmult_le_pos; [left; now apply corrected_pos|apply pos_INR].
    - intros t h r _. unfold price_before. now rewrite Idle. }
  destruct (largest_reached (n j) (U j) Pj) as (s & Hs & E). fold (alone j) in E.
  assert (O : offered check d j s).
  { split; [auto|]. intros _ t h r C. rewrite Idle by auto. rewrite Rplus_0_l. now apply F. }
  assert (T1 : 0 < INR slots * gpus * U_min).
  { destruct W as (T & Gp & _). apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [now apply lt_0_INR|auto]|auto]. }
  destruct (Pay s Hs) as (Low & _). specialize (A j Hj). unfold worth, decides in *. destruct (d j) as [i|].
  - destruct A as ((V & _) & _ & M). specialize (M s O). destruct (Pay i V). lra.
  - specialize (A s O). lra.
Qed.

(* Claim hadar/thm-2-sharper: where OPT <= 2 alpha' ALG is proven, even OPT <= (1 + alpha') ALG. *)
Theorem thm_2_sharper check d opt : worthwhile -> gangs_bounded -> algorithm_1 corrected check d -> optimum opt ->
  opt <= (1 + alpha') * ALG d.
Proof.
  intros W G A O. assert (One : 1 <= alpha') by apply Rmax_l. assert (Dl : delta < 1) by apply G.
  assert (Step : forall j, (j < jobs)%nat -> D corrected d (S j) - D corrected d j <= alpha' * (P d (S j) - P d j)).
  { intros j Hj. assert (R1 : P d (S j) - P d j >= / alpha' * (D corrected d (S j) - D corrected d j)).
    { apply (lemma_2 corrected check); auto. intros i t h r Hi C. rewrite (used_step corrected check) by auto.
      unfold takes. specialize (A i Hi). destruct (d i) as [s|] eqn:E.
      - apply (relation_holds i s t); auto. now apply (decided corrected check d).
      - unfold allocation_cost. rewrite Rplus_0_r. right. ring. }
    apply Rge_le in R1. apply Rmult_le_compat_l with (r := alpha') in R1; [|lra].
    rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l in R1 by lra. exact R1. }
  assert (Sum : forall j, (j <= jobs)%nat -> D corrected d j - D corrected d 0 <= alpha' * P d j).
  { induction j; intros Hj; [unfold P, p2_value_before; cbn [sum]; lra|].
    specialize (Step j Hj). specialize (IHj ltac:(lia)). lra. }
  specialize (Sum jobs (Nat.le_refl jobs)).
  assert (D0 : D corrected d 0 = INR slots * gpus * U_min).
  { unfold D, price_before, corrected. cbn [sum]. rewrite <- gpus_total, (Rmult_comm _ U_min), <- total_scal, Rplus_0_l.
    apply total_ext; intros. unfold used. cbn [sum]. now rewrite price_zero. }
  pose proof (first_job check d W G A) as First.
  destruct O as ((y & (Y & _) & <-) & _).
  assert (Dual : p2_value y <= D corrected d jobs).
  { apply (weak_duality y (price_before corrected d jobs) (mu corrected d)); [auto|]. split; [|split].
    - intros j s Hj Hs. apply Rle_trans with (payoff corrected d j s).
      + unfold payoff, phi. apply Rplus_le_compat_l, Ropp_le_contravar, total_le. intros t h r C.
        apply Rmult_le_compat_r; [apply pos_INR|]. apply corrected_le; auto.
        apply (used_grows corrected check); [auto|lia].
      + pose proof (A j Hj) as Dec. destruct (Rle_lt_dec (payoff corrected d j s) 0) as [N|Pos].
        * pose proof (mu_nonneg corrected check d j Dec). lra.
        * assert (Off : offered check d j s).
          { split; [auto|]. intros _. apply (payoff_fits check); auto. intros t h r C.
            apply Rle_trans with (used (chosen d) jobs t h r); [apply (used_grows corrected check); [auto|lia]|].
            now apply (full_server_corrected check). }
          unfold mu, decides in *. destruct (d j); [now apply Dec|now apply Dec].
    - intros. left. now apply corrected_pos.
    - intros j Hj. now apply (mu_nonneg corrected check), A. }
  unfold ALG in *. lra.
Qed.

(* Claim hadar/thm-2-corrected: Algorithm 1, which irrevocably commits each job on arrival to its best schedule if the
   payoff is positive, with the price U_min (U_max / U_min)^(g / ((1 - delta) c)), U_max = max_j U_j^* and
   U_min = min_j U_j^* / (2 T Sum c), U_j^* being the utility of job j alone, over the feasible jobs with positive
   utility, and no gang taking more than delta c GPUs of a cell, delta < 1, does not exceed the capacity and has
   OPT <= 2 alpha' ALG. *)
Theorem thm_2_corrected check d opt : worthwhile -> gangs_bounded -> algorithm_1 corrected check d -> optimum opt ->
  p2 (chosen d) /\ opt <= 2 * alpha' * ALG d.
Proof.
  intros W G A O. split.
  - assert (V : forall j, (j < jobs)%nat -> forall s, d j = Some s -> (s < n j)%nat).
    { intros j Hj s. apply (decided corrected check), A, Hj. }
    split; [split; [|split]|].
    + intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; lra.
    + now apply (full_server_corrected check).
    + intros j Hj. now apply one_schedule, V.
    + intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; auto.
  - pose proof (thm_2_sharper check d opt W G A O). pose proof (first_job check d W G A).
    assert (One : 1 <= alpha') by apply Rmax_l. destruct (U_min_spec W) as ((P0 & _) & _).
    destruct W as (T & Gp & _). assert (0 < INR slots) by now apply lt_0_INR.
    assert (0 <= INR slots * gpus * U_min) by (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra). nra.
Qed.

End Corrected.

End Schedules.

(* -- P1 ------------------------------------------------------------------------------------------------------------ *)

Variable job : nat -> job_data.
Variable L : R.     (* length of a slot *)

(* sum_h sum_r w_h^r(t) *)
Definition gang (v : allocation) (t : nat) : R := sum servers (fun h => sum types (fun r => INR (v t h r))).
Definition runs_on (v : allocation) (t r : nat) : bool :=
  if Rlt_dec 0 (sum servers (fun h => INR (v t h r))) then true else false.
Definition busy (v : allocation) (t : nat) : bool := if Rlt_dec 0 (gang v t) then true else false.
(* eq. (1b): x_j(t), the speed of the slowest type in use; 0 if there is none *)
Definition bottleneck (j : nat) (v : allocation) (t : nat) : R :=
  slowest (throughput (job j)) (filter (runs_on v t) (seq 0 types)).
(* left side of (1a) *)
Definition work (j : nat) (v : allocation) : R := sum slots (fun t => bottleneck j v t * gang v t * L).
(* eq. (1c): f_j, the last slot in use *)
Definition finish (v : allocation) : nat := last_of slots (busy v).
(* S_j: eqs. (1a), (1b), (1e) *)
Definition schedule (j : nat) (v : allocation) : Prop :=
  work j v >= iterations (job j) /\
  (forall t, (t < slots)%nat -> gang v t = 0 \/ gang v t = INR (workers (job j))) /\
  (forall t h r, cell t h r -> (t < arrival (job j))%nat -> v t h r = O).
(* U_j(f_j - a_j) *)
Definition utility_of (j : nat) (v : allocation) : R := utility (job j) (finish v - arrival (job j)).
Definition same (v v' : allocation) : Prop := forall t h r, cell t h r -> v t h r = v' t h r.

Lemma gang_same v v' t : same v v' -> (t < slots)%nat -> gang v t = gang v' t.
Proof. intros E Ht. apply sum_ext; intros h Hh; apply sum_ext; intros r Hr. rewrite E; [auto|repeat split; auto]. Qed.

Lemma bottleneck_same j v v' t : same v v' -> (t < slots)%nat -> bottleneck j v t = bottleneck j v' t.
Proof.
  intros E Ht. unfold bottleneck. f_equal. apply filter_ext_in. intros r I. apply in_seq in I. unfold runs_on.
  rewrite (sum_ext servers _ (fun h => INR (v' t h r))); [auto|].
  intros h Hh. rewrite E; [auto|]. repeat split; auto; lia.
Qed.

Lemma schedule_same j v v' : same v v' -> schedule j v -> schedule j v'.
Proof.
  intros E (Work & Gang & Early). split; [|split].
  - replace (work j v') with (work j v); [auto|]. apply sum_ext; intros t Ht.
    now rewrite (bottleneck_same j v v'), (gang_same v v').
  - intros t Ht. rewrite <- (gang_same v v') by auto. auto.
  - intros t h r C Ht. rewrite <- E by auto. auto.
Qed.

Lemma last_of_ext n p q : (forall t, (t < n)%nat -> p t = q t) -> last_of n p = last_of n q.
Proof.
  induction n; intros E; [auto|]. cbn. rewrite E by lia. destruct (q n); [auto|]. apply IHn. intros; apply E; lia.
Qed.

Lemma utility_same j v v' : same v v' -> utility_of j v = utility_of j v'.
Proof.
  intros E. unfold utility_of, finish. do 2 f_equal. apply last_of_ext. intros t Ht. unfold busy.
  now rewrite (gang_same v v').
Qed.

(* P1 with the admission variable: (1a), (1b), (1e) for admitted jobs, no GPUs for the others, and (1d). *)
Definition p1 (v : nat -> allocation) (admitted : nat -> bool) : Prop :=
  (forall j, (j < jobs)%nat -> if admitted j then schedule j (v j) else same (v j) (fun _ _ _ => O)) /\
  (forall t h r, cell t h r -> sum jobs (fun j => INR (v j t h r)) <= INR (c h r)).
(* eq. (1) *)
Definition p1_value (v : nat -> allocation) (admitted : nat -> bool) : R :=
  sum jobs (fun j => if admitted j then utility_of j (v j) else 0).

(* w_j0, w_j1, ... are the schedules of S_j, each once. *)
Definition enumerates (j n : nat) (w : nat -> allocation) : Prop :=
  (forall s, (s < n)%nat -> schedule j (w s)) /\
  (forall v, schedule j v -> exists s, (s < n)%nat /\ same v (w s)) /\
  (forall s s', (s < n)%nat -> (s' < n)%nat -> same (w s) (w s') -> s = s').

Lemma gang_entry v t h r : cell t h r -> INR (v t h r) <= gang v t.
Proof.
  intros (_ & Hh & Hr). apply Rle_trans with (sum types (fun r => INR (v t h r))).
  - apply (sum_term types (fun r => INR (v t h r))); auto. intros; apply pos_INR.
  - apply (sum_term servers (fun h => sum types (fun r => INR (v t h r)))); auto.
    intros; apply sum_nonneg; intros; apply pos_INR.
Qed.

Lemma schedules_enumerated j : exists n w, enumerates j n w.
Proof.
  set (all := functions O (fun _ => seq 0 (S (workers (job j)))) cells).
  set (allocation_of := fun (f : nat -> nat) t h r => f (index t h r)).
  cut (forall l, exists n w, (forall s, (s < n)%nat -> schedule j (w s)) /\
    (forall f, In f l -> schedule j (allocation_of f) -> exists s, (s < n)%nat /\ same (allocation_of f) (w s)) /\
    (forall s s', (s < n)%nat -> (s' < n)%nat -> same (w s) (w s') -> s = s')).
  { intros H. destruct (H all) as (n & w & Sch & Every & Once). exists n, w. split; [auto|]. split; [|auto].
    intros v V. destruct (functions_complete O (fun _ => seq 0 (S (workers (job j)))) cells (at_index v))
      as (f & I & E).
    - intros i Hi. destruct (index_onto i Hi) as (t & h & r & C & ->). rewrite at_index_of by auto.
      apply in_seq. split; [lia|]. cbn. apply Nat.lt_succ_r, INR_le.
      apply Rle_trans with (gang v t); [now apply gang_entry|].
      destruct V as (_ & G & _). destruct (G t (proj1 C)) as [-> | ->]; [apply pos_INR|lra].
    - assert (Sm : same v (allocation_of f)).
      { intros t h r C. unfold allocation_of. rewrite E by now apply index_lt. now rewrite at_index_of. }
      destruct (Every f I (schedule_same j v _ Sm V)) as (s & Hs & Es). exists s. split; [auto|].
      intros t h r C. rewrite Sm by auto. now apply Es. }
  induction l as [|f l (n & w & Sch & Every & Once)].
  { exists O, (fun _ _ _ _ => O). repeat split; intros; lia || contradiction. }
  destruct (classic (schedule j (allocation_of f) /\ ~ exists s, (s < n)%nat /\ same (allocation_of f) (w s)))
    as [(V & New)|Old].
  - exists (S n), (fun s => if Nat.eqb s n then allocation_of f else w s). split; [|split].
    + intros s Hs. destruct (Nat.eqb_spec s n); [auto|apply Sch; lia].
    + intros g [<-|I] G; [exists n; rewrite Nat.eqb_refl; split; [lia|intros t h r _; auto]|].
      destruct (Every g I G) as (s & Hs & E). exists s. destruct (Nat.eqb_spec s n); [lia|]. split; [lia|auto].
    + intros s s' Hs Hs'. destruct (Nat.eqb_spec s n) as [->|N]; destruct (Nat.eqb_spec s' n) as [->|N']; intros E.
      * auto.
      * exfalso. apply New. exists s'. split; [lia|auto].
      * exfalso. apply New. exists s. split; [lia|]. intros t h r C. symmetry. now apply E.
      * apply Once; auto; lia.
  - exists n, w. split; [auto|]. split; [|auto]. intros g [<-|I] G; [|auto].
    apply NNPP. intros N. apply Old. auto.
Qed.

(* y_js = 1 if and only if job j is admitted with schedule s. *)
Definition corresponds (n : nat -> nat) (w : nat -> nat -> allocation) (v : nat -> allocation) (admitted : nat -> bool)
  (y : nat -> nat -> R) : Prop :=
  forall j s, (j < jobs)%nat -> (s < n j)%nat -> (y j s = 1 <-> admitted j = true /\ same (v j) (w j s)).

(* A choice of schedules corresponds to its GPUs. *)
Lemma corresponds_chosen n w v admitted d :
  (forall j, (j < jobs)%nat -> enumerates j (n j) (w j)) ->
  (forall j, (j < jobs)%nat -> match d j with
    | Some s => (s < n j)%nat /\ admitted j = true /\ same (v j) (w j s)
    | None => admitted j = false /\ same (v j) (fun _ _ _ => O)
    end) ->
  corresponds n w v admitted (chosen d) /\ (p1 v admitted <-> p2 n w (chosen d)) /\
  p2_value n (fun j s => utility_of j (w j s)) (chosen d) = p1_value v admitted.
Proof.
  intros En Dec.
  assert (V : forall j, (j < jobs)%nat -> forall s, d j = Some s -> (s < n j)%nat).
  { intros j Hj s E. specialize (Dec j Hj). rewrite E in Dec. apply Dec. }
  assert (Used : forall t h r, cell t h r -> used n w (chosen d) jobs t h r = sum jobs (fun j => INR (v j t h r))).
  { intros t h r C. apply sum_ext; intros j Hj. rewrite (sum_chosen n d j (fun s => INR (w j s t h r))) by now apply V.
    specialize (Dec j Hj). destruct (d j) as [s|]; destruct Dec as (Dec & S0); [destruct S0 as (_ & S0)|];
      rewrite (S0 t h r C); reflexivity. }
  split; [|split].
  - intros j s Hj Hs. specialize (Dec j Hj). destruct (En j Hj) as (_ & _ & Once). unfold chosen.
    destruct (d j) as [i|]; [destruct Dec as (Hi & Ad & Sm)|destruct Dec as (Ad & Sm)].
    + destruct (Nat.eqb_spec s i) as [->|N]; split; try tauto; [lra|]. intros (_ & Sm'). exfalso. apply N.
      apply Once; auto. intros t h r C. rewrite <- Sm', Sm by auto. auto.
    + split; [lra|]. rewrite Ad. intros (F & _). discriminate.
  - split.
    + intros (_ & Cap). split; [split; [|split]|].
      * intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; lra.
      * intros t h r C. rewrite Used by auto. now apply Cap.
      * intros j Hj. now apply one_schedule, V.
      * intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; auto.
    + intros ((_ & Cap & _) & _). split.
      * intros j Hj. specialize (Dec j Hj). destruct (En j Hj) as (Sch & _). destruct (d j) as [s|].
        -- destruct Dec as (Hs & -> & Sm). apply (schedule_same j (w j s)); [|now apply Sch].
           intros t h r C. symmetry. now apply Sm.
        -- destruct Dec as (-> & Sm). exact Sm.
      * intros t h r C. rewrite <- Used by auto. now apply Cap.
  - apply sum_ext; intros j Hj. rewrite (sum_chosen n d j (fun s => utility_of j (w j s))) by now apply V.
    specialize (Dec j Hj). destruct (d j) as [s|]; [destruct Dec as (Hs & -> & Sm)|destruct Dec as (-> & _); auto].
    symmetry. now apply utility_same.
Qed.

(* Claim hadar/p1-p2-admission: P1 with a variable that admits jobs, so that (1a) requires only admitted jobs to finish,
   is equivalent to P2 over all schedules of S_j: feasible solutions correspond one to one, with equal objectives. *)
Theorem p1_p2_admission :
  (exists n w, forall j, (j < jobs)%nat -> enumerates j (n j) (w j)) /\
  forall n w, (forall j, (j < jobs)%nat -> enumerates j (n j) (w j)) ->
  (forall v admitted, p1 v admitted -> exists y, p2 n w y /\ corresponds n w v admitted y /\
    p2_value n (fun j s => utility_of j (w j s)) y = p1_value v admitted /\
    forall y', p2 n w y' -> corresponds n w v admitted y' ->
      forall j s, (j < jobs)%nat -> (s < n j)%nat -> y' j s = y j s) /\
  (forall y, p2 n w y -> exists v admitted, p1 v admitted /\ corresponds n w v admitted y /\
    p1_value v admitted = p2_value n (fun j s => utility_of j (w j s)) y /\
    forall v' admitted', p1 v' admitted' -> corresponds n w v' admitted' y ->
      forall j, (j < jobs)%nat -> admitted' j = admitted j /\ same (v' j) (v j)).
Proof.
  split; [|intros n w En; split].
  - destruct (finite_choice (O, fun _ _ _ _ => O) jobs (fun j nw => enumerates j (fst nw) (snd nw))) as (nw & E).
    + intros j _. destruct (schedules_enumerated j) as (n & w & E). now exists (n, w).
    + now exists (fun j => fst (nw j)), (fun j => snd (nw j)).
  - intros v admitted V.
    destruct (finite_choice None jobs (fun j o => match o with
      | Some s => (s < n j)%nat /\ admitted j = true /\ same (v j) (w j s)
      | None => admitted j = false /\ same (v j) (fun _ _ _ => O)
      end)) as (d & Dec).
    { intros j Hj. destruct V as (V & _). specialize (V j Hj). destruct (admitted j); [|now exists None].
      destruct (En j Hj) as (_ & Every & _). destruct (Every (v j) V) as (s & Hs & E). exists (Some s). auto. }
    destruct (corresponds_chosen n w v admitted d En Dec) as (Co & Eq & Val).
    exists (chosen d). split; [now apply Eq|]. split; [auto|]. split; [auto|].
    intros y (_ & B) Co' j s Hj Hs. specialize (Co j s Hj Hs). specialize (Co' j s Hj Hs).
    destruct (B j s Hj Hs) as [Z|One].
    + rewrite Z. assert (N : chosen d j s <> 1) by (intros N; apply Co, Co' in N; lra). revert N.
      unfold chosen. destruct (d j); [destruct Nat.eqb|]; auto. intros N; now destruct N.
    + rewrite One. symmetry. now apply Co, Co'.
  - intros y Y.
    set (d := choice_of n y). assert (F : forall j, (j < jobs)%nat -> (forall s, d j = Some s -> (s < n j)%nat) /\
      forall s, (s < n j)%nat -> y j s = chosen d j s) by (intros j Hj; now apply choice_of_spec with (w := w)).
    set (v := fun j => match d j with Some s => w j s | None => fun _ _ _ => O end).
    set (admitted := fun j => match d j with Some _ => true | None => false end).
    destruct (corresponds_chosen n w v admitted d En) as (Co & Eq & Val).
    { intros j Hj. unfold v, admitted. destruct (F j Hj) as (Vj & _). destruct (d j) as [s|].
      - split; [now apply Vj|]. split; [auto|]. intros t h r _; auto.
      - split; [auto|]. intros t h r _; auto. }
    assert (E : forall j s, (j < jobs)%nat -> (s < n j)%nat -> y j s = chosen d j s) by (intros j s Hj; now apply F).
    exists v, admitted. split; [now apply Eq, (p2_ext n w y)|]. split; [|split].
    + intros j s Hj Hs. rewrite E by auto. now apply Co.
    + rewrite <- Val. symmetry. now apply p2_value_ext.
    + intros v' admitted' (V' & _) Co' j Hj. specialize (V' j Hj). destruct (admitted' j) eqn:A'.
      * destruct (En j Hj) as (_ & Every & _). destruct (Every (v' j) V') as (s & Hs & Sm).
        assert (One : y j s = 1) by (apply Co'; auto). rewrite E in One by auto. apply Co in One; auto.
        destruct One as (-> & Sm'). split; [auto|]. intros t h r C. rewrite Sm, Sm' by auto. auto.
      * assert (Out : d j = None).
        { destruct (d j) as [s|] eqn:Dj; [exfalso|auto]. assert (Hs : (s < n j)%nat) by now apply F.
          assert (One : y j s = 1) by (rewrite E by auto; unfold chosen; rewrite Dj, Nat.eqb_refl; auto).
          apply Co' in One; auto. destruct One as (One & _). congruence. }
        unfold admitted, v. rewrite Out. auto.
Qed.

(* -- Prices as printed --------------------------------------------------------------------------------------------- *)

(* eq. (7): t_j^max in slots, all of the gang being on the slowest type that can run the job *)
Definition t_max (j : nat) : R :=
  IZR (ceiling (iterations (job j) / (INR (workers (job j)) * least_positive types (throughput (job j)) * L))).
(* eq. (7): 1 / (4 eta) min_j U_j(T - a_j) / (t_j^max sum_r w_j^r); it is equal for all types *)
Definition printed_U_min (eta : R) : R := / (4 * eta) *
  least_positive jobs (fun j => utility (job j) (slots - 1 - arrival (job j)) / (t_max j * INR (workers (job j)))).
(* Work and GPUs are positive, some type runs the job, its utility is positive and does not increase with time. *)
Definition sound (j : nat) : Prop := 0 < iterations (job j) /\ (0 < workers (job j))%nat /\
  (exists r, (r < types)%nat /\ 0 < throughput (job j) r) /\ 0 < utility (job j) (slots - 1 - arrival (job j)) /\
  forall f f', (f <= f')%nat -> utility (job j) f' <= utility (job j) f.

(* Without the GPUs in slot t. *)
Definition dropped (t : nat) (v : allocation) : allocation := fun u h r => if Nat.eqb u t then O else v u h r.

Lemma gang_dropped t v u : gang (dropped t v) u = if Nat.eqb u t then 0 else gang v u.
Proof.
  unfold gang, dropped. destruct (Nat.eqb_spec u t); [|auto]. apply sum_zero; intros; apply sum_zero; intros; auto.
Qed.

Lemma work_dropped j t v : (t < slots)%nat ->
  work j v = bottleneck j v t * gang v t * L + work j (dropped t v) /\
  work j (dropped t v) = sum slots (fun u => if Nat.eqb u t then 0 else bottleneck j v u * gang v u * L).
Proof.
  intros Ht.
  assert (E : work j (dropped t v) = sum slots (fun u => if Nat.eqb u t then 0 else bottleneck j v u * gang v u * L)).
  { apply sum_ext; intros u Hu. rewrite gang_dropped. unfold bottleneck, runs_on, dropped.
    destruct (Nat.eqb_spec u t); [ring|auto]. }
  split; [|exact E]. rewrite E. unfold work.
  rewrite <- (sum_at slots t (bottleneck j v t * gang v t * L) Ht), <- sum_plus. apply sum_ext; intros u Hu.
  destruct (Nat.eqb_spec u t) as [->|]; ring.
Qed.

Definition busy_slots (v : allocation) : R := sum slots (fun t => if busy v t then 1 else 0).

Lemma busy_slots_dropped t v : (t < slots)%nat -> busy v t = true -> busy_slots v = 1 + busy_slots (dropped t v).
Proof.
  intros Ht B. unfold busy_slots. apply eq_trans with
    (sum slots (fun u => (if Nat.eqb u t then 1 else 0) + if busy (dropped t v) u then 1 else 0));
    [|now rewrite sum_plus, sum_at]. apply sum_ext; intros u Hu.
  unfold busy in *. rewrite gang_dropped. destruct (Nat.eqb_spec u t) as [->|]; [|ring].
  destruct (Rlt_dec 0 (gang v t)); [|discriminate]. destruct (Rlt_dec 0 0); lra.
Qed.

Lemma gang_nonneg v t : 0 <= gang v t.
Proof. apply sum_nonneg; intros; apply sum_nonneg; intros; apply pos_INR. Qed.

Lemma slowest_in X l : l <> [] -> In (slowest X l) (map X l).
Proof.
  destruct l as [|i l]; [congruence|]. intros _. cbn [slowest map]. induction l as [|b l IH]; [now left|].
  cbn [fold_right map]. set (m := fold_right _ _ l) in *. unfold Rmin. destruct Rle_dec; [right; now left|].
  destruct IH as [E|I]; [now left|right; now right].
Qed.

(* A busy slot runs at x <= 0, or at the speed of the slowest type or more. *)
Lemma bottleneck_cases j v t : busy v t = true -> bottleneck j v t <= 0 \/
  least_positive types (throughput (job j)) <= bottleneck j v t.
Proof.
  intros B. assert (N : filter (runs_on v t) (seq 0 types) <> []).
  { unfold busy in B. destruct (Rlt_dec 0 (gang v t)) as [G|]; [|discriminate]. unfold gang in G. rewrite sum_swap in G.
    destruct (sum_pos_term _ _ G) as (r & Hr & P0).
    assert (I : In r (filter (runs_on v t) (seq 0 types))).
    { apply filter_In. split; [apply in_seq; lia|]. unfold runs_on. destruct Rlt_dec; [auto|contradiction]. }
    intros E. rewrite E in I. destruct I. }
  pose proof (slowest_in (throughput (job j)) _ N) as I. fold (bottleneck j v t) in I.
  apply in_map_iff in I as (r & E & I). apply filter_In in I as (I & _). apply in_seq in I. rewrite <- E.
  destruct (Rle_lt_dec (throughput (job j) r) 0) as [|P0]; [now left|right].
  destruct (least_positive_spec types (throughput (job j))) as (_ & Low & _). apply Low; [lia|auto].
Qed.

(* Superfluous slots can be dropped until at most t_j^max are left. *)
Lemma few_slots j v : 0 < L -> sound j -> schedule j v ->
  exists v', schedule j v' /\ (forall t h r, (v' t h r <= v t h r)%nat) /\ busy_slots v' <= t_max j.
Proof.
  intros L0 (It & Wk & (r0 & Hr0 & X0) & _). set (m := least_positive types (throughput (job j))).
  assert (M : 0 < m).
  { destruct (least_positive_spec types (throughput (job j))) as (_ & Low & _). now destruct (Low r0 Hr0 X0). }
  assert (W : 0 < INR (workers (job j))) by now apply lt_0_INR.
  assert (Whole : forall v, exists q, busy_slots v = INR q).
  { intros u. unfold busy_slots. generalize slots as s. induction s as [|s (q & E)]; [now exists O|].
    cbn [sum]. rewrite E. destruct (busy u s); [exists (S q); rewrite S_INR; ring|exists q; ring]. }
  assert (Enough : iterations (job j) <= t_max j * (INR (workers (job j)) * m * L)).
  { unfold t_max. fold m. set (x := iterations (job j) / (INR (workers (job j)) * m * L)).
    assert (E : iterations (job j) = x * (INR (workers (job j)) * m * L)) by (unfold x; field; lra).
    rewrite E at 1. apply Rmult_le_compat_r; [|apply ceiling_spec]. left. repeat apply Rmult_lt_0_compat; auto. }
  assert (T0 : 0 <= t_max j).
  { assert (0 < INR (workers (job j)) * m * L) by (repeat apply Rmult_lt_0_compat; auto). nra. }
  assert (Drop : forall u t, schedule j u -> (t < slots)%nat -> work j (dropped t u) >= iterations (job j) ->
    schedule j (dropped t u)).
  { intros u t (_ & G & Early) Ht Wd. split; [auto|]. split.
    - intros t' Ht'. rewrite gang_dropped. destruct (Nat.eqb_spec t' t); [now left|now apply G].
    - intros t' h r C Ht'. unfold dropped. destruct (Nat.eqb_spec t' t); [auto|]. now apply Early. }
  cut (forall q u, busy_slots u = INR q -> schedule j u -> (forall t h r, (u t h r <= v t h r)%nat) ->
    exists v', schedule j v' /\ (forall t h r, (v' t h r <= v t h r)%nat) /\ busy_slots v' <= t_max j).
  { intros H Sv. destruct (Whole v) as (q & E). now apply (H q v). }
  induction q as [|q IH]; intros u E Su Le; [exists u; rewrite E; auto|].
  destruct (Rle_lt_dec (busy_slots u) (t_max j)) as [F|Many]; [now exists u|].
  cut (exists t, (t < slots)%nat /\ busy u t = true /\ work j (dropped t u) >= iterations (job j)).
  { intros (t & Ht & B & Wd). apply (IH (dropped t u)); [|now apply Drop|].
    - rewrite (busy_slots_dropped t u Ht B), S_INR in E. lra.
    - intros t' h r. unfold dropped. destruct Nat.eqb; [lia|auto]. }
  destruct (classic (exists t, (t < slots)%nat /\ busy u t = true /\ bottleneck j u t <= 0)) as [(t & Ht & B & X)|All].
  - exists t. split; [auto|]. split; [auto|]. destruct Su as (Wu & _). destruct (work_dropped j t u Ht) as (E' & _).
    pose proof (gang_nonneg u t). assert (bottleneck j u t * gang u t * L <= 0); [|lra].
    assert (bottleneck j u t * gang u t <= 0) by nra. nra.
  - assert (Some1 : exists t, (t < slots)%nat /\ busy u t = true).
    { assert (P0 : 0 < busy_slots u) by lra. destruct (sum_pos_term _ _ P0) as (t & Ht & Pt). exists t.
      split; [auto|]. destruct (busy u t); [auto|lra]. }
    destruct Some1 as (t & Ht & B). exists t. split; [auto|]. split; [auto|].
    destruct (work_dropped j t u Ht) as (_ & ->). apply Rle_ge.
    apply Rle_trans with (busy_slots (dropped t u) * (INR (workers (job j)) * m * L)).
    + apply Rle_trans with (t_max j * (INR (workers (job j)) * m * L)); [auto|].
      apply Rmult_le_compat_r; [left; repeat apply Rmult_lt_0_compat; auto|].
      destruct (Whole (dropped t u)) as (p & Ep). pose proof (busy_slots_dropped t u Ht B) as Eb.
      rewrite Ep in *. unfold t_max in *. set (z := ceiling _) in *. rewrite INR_IZR_INZ in *.
      assert (Hlt : IZR z < IZR (Z.of_nat p + 1)) by (rewrite plus_IZR; lra).
      apply IZR_le. apply lt_IZR in Hlt. lia.
    + unfold busy_slots. rewrite Rmult_comm, <- sum_scal. apply sum_le; intros t' Ht'. unfold busy.
      rewrite gang_dropped. destruct (Nat.eqb_spec t' t) as [->|N]; [destruct Rlt_dec; lra|].
      destruct Su as (_ & G & _). destruct (Rlt_dec 0 (gang u t')) as [P0|P0].
      * assert (B' : busy u t' = true) by (unfold busy; destruct Rlt_dec; [auto|contradiction]).
        destruct (bottleneck_cases j u t' B') as [Z|Z]; [exfalso; apply All; exists t'; auto|]. fold m in Z.
        destruct (G t' Ht') as [Z'|Z']; [lra|]. rewrite Z', Rmult_1_r.
        rewrite (Rmult_comm (bottleneck j u t')). apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; lra.
      * destruct (G t' Ht') as [Z'|Z']; rewrite Z' in *; [lra|contradiction].
Qed.

(* Claim hadar/admits-any-eta: with (6), (7) and eta > 1/4 every feasible job has a positive payoff on the empty
   cluster. Utilities are positive. U_max, here high, can be (6) or any other, as no GPU is in use. *)
Theorem admits_any_eta eta high j v : 0 < L -> 1 / 4 < eta -> (j < jobs)%nat ->
  (forall i, (i < jobs)%nat -> sound i) -> schedule j v -> (forall t h r, cell t h r -> (v t h r <= c h r)%nat) ->
  exists v', schedule j v' /\ (forall t h r, cell t h r -> (v' t h r <= c h r)%nat) /\
    0 < utility_of j v' - total (fun t h r => price (printed_U_min eta) (high r) (INR (c h r)) 0 * INR (v' t h r)).
Proof.
  intros L0 Eta Hj Sound Sv Cap. destruct (few_slots j v L0 (Sound j Hj) Sv) as (v' & Sv' & Le & Few).
  exists v'. split; [auto|]. split; [intros t h r C; specialize (Cap t h r C); specialize (Le t h r); lia|].
  destruct (Sound j Hj) as (It & Wk & (r0 & Hr0 & X0) & Up & Mono).
  assert (W : 0 < INR (workers (job j))) by now apply lt_0_INR.
  rewrite (total_ext _ (fun t h r => printed_U_min eta * INR (v' t h r))) by (intros; now rewrite price_zero).
  rewrite total_scal.
  assert (G : total (fun t h r => INR (v' t h r)) = INR (workers (job j)) * busy_slots v').
  { unfold total, busy_slots. rewrite <- sum_scal. apply sum_ext; intros t Ht. fold (gang v' t). unfold busy.
    destruct Sv' as (_ & Gs & _). destruct (Gs t Ht) as [-> | ->]; destruct Rlt_dec; lra. }
  rewrite G. set (u := utility (job j) (slots - 1 - arrival (job j))) in *.
  assert (U1 : u <= utility_of j v').
  { apply Mono. unfold finish. assert (F : forall n p, (last_of n p <= n - 1)%nat).
    { induction n as [|n IH]; intros p; cbn; [lia|]. destruct (p n); [lia|]. specialize (IH p). lia. }
    specialize (F slots (busy v')). lia. }
  assert (T0 : 0 < t_max j).
  { unfold t_max. set (m := least_positive types (throughput (job j))).
    assert (M : 0 < m).
    { destruct (least_positive_spec types (throughput (job j))) as (_ & Low & _). now destruct (Low r0 Hr0 X0). }
    apply Rlt_le_trans with (iterations (job j) / (INR (workers (job j)) * m * L)); [|apply ceiling_spec].
    apply Rdiv_lt_0_compat; [auto|]. repeat apply Rmult_lt_0_compat; auto. }
  assert (K : printed_U_min eta <= / (4 * eta) * (u / (t_max j * INR (workers (job j))))).
  { unfold printed_U_min. apply Rmult_le_compat_l; [left; apply Rinv_0_lt_compat; lra|].
    destruct (least_positive_spec jobs (fun j =>
      utility (job j) (slots - 1 - arrival (job j)) / (t_max j * INR (workers (job j))))) as (_ & Low & _).
    apply (Low j Hj). apply Rdiv_lt_0_compat; [auto|]. now apply Rmult_lt_0_compat. }
  assert (B : printed_U_min eta * (INR (workers (job j)) * busy_slots v') <= / (4 * eta) * u).
  { set (k := printed_U_min eta) in *. clearbody k.
    apply Rle_trans with (/ (4 * eta) * (u / (t_max j * INR (workers (job j)))) * (INR (workers (job j)) * t_max j)).
    - assert (B0 : 0 <= busy_slots v') by (apply sum_nonneg; intros; destruct busy; lra).
      assert (K0 : 0 < / (4 * eta) * (u / (t_max j * INR (workers (job j))))).
      { apply Rmult_lt_0_compat; [apply Rinv_0_lt_compat; lra|].
        apply Rdiv_lt_0_compat; [auto|]. now apply Rmult_lt_0_compat. }
      apply Rle_trans with (/ (4 * eta) * (u / (t_max j * INR (workers (job j)))) *
        (INR (workers (job j)) * busy_slots v')).
      + apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|auto].
      + apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_l; lra.
    - right. field. lra. }
  assert (Q : / (4 * eta) < 1) by (rewrite <- Rinv_1; apply Rinv_lt_contravar; lra). nra.
Qed.

End Cluster.

(* Two jobs of one GPU each, with utilities 1 and 2, on two GPUs in one slot. *)
Definition one_gpu : nat -> nat -> allocation := fun _ _ _ _ _ => 1%nat.
Definition one_or_two (j s : nat) : R := INR j + 1.

Lemma two_jobs_worthwhile : worthwhile 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_or_two.
Proof.
  split; [lia|]. split; [unfold gpus; cbn; lra|]. exists 0%nat. split; [lia|].
  apply Rlt_le_trans with (one_or_two 0 0); [unfold one_or_two; cbn; lra|].
  apply (largest_ge 1 (one_or_two 0)); lia.
Qed.

Lemma two_jobs_fit : schedules_fit 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_gpu.
Proof. intros j s t h r _ _ _. cbn. lra. Qed.

Lemma two_jobs_bounded : gangs_bounded 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_gpu (1 / 2).
Proof. split; [lra|]. intros j s t h r _ _ _. cbn. lra. Qed.

Lemma two_jobs_optimum : exists opt, optimum 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_gpu one_or_two opt.
Proof. apply optimum_exists. Qed.

Lemma two_jobs_run k : exists d, algorithm_1 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_gpu one_or_two k false d.
Proof. apply run_exists. Qed.

Definition two_jobs_prices : nat -> nat -> R -> R :=
  corrected 1 1 1 (fun _ _ => 2%nat) 2 (fun _ => 1%nat) one_or_two (1 / 2).

Example p3_dual_met : can_be_met p3_dual.
Proof. intros H. exact (H 1 1 1 (fun _ _ => 2) 2 (fun _ => 1) one_gpu one_or_two)%nat. Qed.

Example p3_bound_met : can_be_met p3_bound.
Proof.
  intros H. destruct two_jobs_optimum as (opt & O). eapply H with (k := fun _ _ _ => 1); [intros; lra|exact O].
Qed.

Example lemma_2_met : can_be_met lemma_2.
Proof.
  intros H. destruct (two_jobs_run (fun _ _ _ => 1)) as (d & A).
  eapply H with (alpha := 1) (j := 0%nat); [exact A|lra| |lia]. intros j t h r Hj _. unfold allocation_cost.
  erewrite used_step by exact (A j Hj). pose proof (takes_nonneg one_gpu d j t h r). lra.
Qed.

Example lemma_1_feasible_met : can_be_met lemma_1_feasible.
Proof.
  intros H. destruct (two_jobs_run (fun _ _ _ => 0)) as (d & A). destruct two_jobs_optimum as (opt & O).
  eapply H with (alpha := 1); [exact A|lra| |reflexivity| |exact O|].
  - eapply lemma_2; [exact A|lra|]. intros. unfold allocation_cost. lra.
  - apply Rle_trans with 0; [right|].
    + unfold D, price_before. cbn. ring.
    + destruct O as (_ & M). specialize (M (fun _ _ => 0)). assert (0 <= opt); [|lra].
      apply Rle_trans with (p2_value 2 (fun _ => 1%nat) one_or_two (fun _ _ => 0)); [unfold p2_value; cbn; lra|].
      apply M. split; [apply relaxed_zero|]. intros j s _ _. now left.
  - split; [|split; [intros; unfold price_before; lra|intros j Hj; eapply mu_nonneg; exact (A j Hj)]].
    intros j s Hj Hs. specialize (A j Hj). unfold mu, decides in *.
    replace (phi 1 1 1 one_gpu one_or_two (price_before (fun _ => 1%nat) one_gpu (fun _ _ _ => 0) d 2) j s)
      with (payoff 1 1 1 (fun _ => 1%nat) one_gpu one_or_two (fun _ _ _ => 0) d j s) by reflexivity.
    destruct (d j); apply A; (split; [auto|discriminate]).
Qed.

Example admits_any_corrected_met : can_be_met admits_any_corrected.
Proof.
  intros H. eapply (H _ _ _ _ _ _ _ _ (1 / 2) 0%nat two_jobs_worthwhile two_jobs_fit); [lia|].
  apply Rlt_le_trans with (one_or_two 0 0); [unfold one_or_two; cbn; lra|].
  apply (largest_ge 1 (one_or_two 0)); lia.
Qed.

Example initial_dual_corrected_met : can_be_met initial_dual_corrected.
Proof.
  intros H. destruct two_jobs_optimum as (opt & O). eapply H; [exact two_jobs_worthwhile|exact two_jobs_fit|exact O].
Qed.

Example full_server_corrected_met : can_be_met full_server_corrected.
Proof.
  intros H. destruct (two_jobs_run two_jobs_prices) as (d & A).
  eapply H with (t := 0%nat) (h := 0%nat) (r := 0%nat);
    [exact two_jobs_worthwhile|exact two_jobs_bounded|exact A|repeat split; lia].
Qed.

Example thm_2_sharper_met : can_be_met thm_2_sharper.
Proof.
  intros H. destruct (two_jobs_run two_jobs_prices) as (d & A).
  destruct two_jobs_optimum as (opt & O). eapply H; [exact two_jobs_worthwhile|exact two_jobs_bounded|exact A|exact O].
Qed.

Example thm_2_corrected_met : can_be_met thm_2_corrected.
Proof. exact thm_2_sharper_met. Qed.

(* Two such jobs of P1: one GPU for one slot. *)
Definition short_job (j : nat) : job_data := Job 1 1 0 (fun _ => 1) (fun _ => INR j + 1).
Definition first_gpu : allocation := fun _ _ _ => 1%nat.

Lemma short_job_schedule j : schedule 1 1 1 short_job 1 j first_gpu.
Proof.
  assert (G : gang 1 1 first_gpu 0 = 1) by (unfold gang; cbn; lra).
  split; [|split].
  - unfold work. cbn [sum]. rewrite G. unfold bottleneck, runs_on. cbn. destruct Rlt_dec; cbn; lra.
  - intros t Ht. right. replace t with 0%nat by lia. exact G.
  - intros t h r _ Ht. cbn in Ht. lia.
Qed.

Example p1_p2_admission_met : can_be_met p1_p2_admission.
Proof. intros H. exact (H 1 1 1 (fun _ _ => 2) 2 short_job 1%R)%nat. Qed.

Example admits_any_eta_met : can_be_met admits_any_eta.
Proof.
  intros H. apply (H 1%nat 1%nat 1%nat (fun _ _ => 2%nat) 2%nat short_job 1 (1 / 2) (fun _ => 2) 0%nat first_gpu);
    [lra|lra|lia| |apply short_job_schedule|unfold first_gpu; lia].
  intros i _. unfold sound, short_job; cbn. pose proof (pos_INR i). repeat split; try lra; try lia.
  - exists 0%nat. split; [lia|lra].
  - intros. lra.
Qed.

(* -- Algorithm 2, in one round ------------------------------------------------------------------------------------- *)

Section Algorithm2.
Variables servers types : nat.
Variable c : nat -> nat -> nat.
Variable jobs : nat.                    (* the length of Q *)

(* GPUs of each type on each server: in use (the state), or of a gang *)
Definition state := nat -> nat -> nat.
Definition plus (g x : state) : state := fun h r => (g h r + x h r)%nat.
Definition within (g : state) : Prop := forall h r, (h < servers)%nat -> (r < types)%nat -> (g h r <= c h r)%nat.
(* is_Server_Full *)
Definition full (g : state) : bool :=
  forallb (fun h => forallb (fun r => Nat.eqb (g h r) (c h r)) (seq 0 types)) (seq 0 servers).

Variable find_alloc : nat -> state -> option state.     (* FIND_ALLOC, lines 22 to 34; None is null *)
(* It returns free GPUs, at least one. *)
Definition finds_free_gpus : Prop := forall j g x, find_alloc j g = Some x ->
  within (plus g x) /\ exists h r, (h < servers)%nat /\ (r < types)%nat /\ (0 < x h r)%nat.

(* eq. (5) in state g *)
Variables low high : nat -> R.                          (* U_min^r, U_max^r *)
Definition price_in (g : state) (h r : nat) : R := price (low r) (high r) (INR (c h r)) (INR (g h r)).
(* sum_h sum_r k_h^r w_h^r *)
Definition cost_of (g x : state) : R := sum servers (fun h => sum types (fun r => price_in g h r * INR (x h r))).
(* The GPUs of all jobs in w. *)
Definition held (w : list (nat * state)) : state := fold_right (fun p => plus (snd p)) (fun _ _ => O) w.

(* Lines 1 to 21 as printed, with m jobs from j on: w are the allocations so far, g the GPUs in use. *)
Fixpoint as_printed (m j : nat) (w : list (nat * state)) (g : state) : list (nat * state) :=
  match m with
  | O => w
  | S m => if full g then w else
      match find_alloc j g with
      | None => w
      | Some x =>
          let taken := as_printed m (S j) (w ++ [(j, x)]) (plus g x) in
          let skipped := as_printed m (S j) w g in
          if Rlt_dec (cost_of (plus g x) (held taken)) (cost_of g (held skipped)) then taken else skipped
      end
  end.

(* Claim hadar/algorithm-2-skips: as printed, Algorithm 2 runs no job, for all jobs, servers and prices > 0, whatever
   FIND_ALLOC returns. *)
Theorem algorithm_2_skips g : (forall r, (r < types)%nat -> 0 < low r) -> as_printed jobs 0 [] g = [].
Proof.
  intros Pos. cut (forall m j g, as_printed m j [] g = []); [auto|].
  induction m as [|m IH]; intros j g'; cbn [as_printed]; [auto|].
  destruct (full g'); [auto|]. destruct (find_alloc j g') as [x|]; [|auto].
  rewrite IH. destruct Rlt_dec as [Less|]; [exfalso|auto]. revert Less. apply Rle_not_lt.
  apply sum_le; intros h Hh; apply sum_le; intros r Hr. cbn [held fold_right]. rewrite Rmult_0_r.
  apply Rmult_le_pos; [left; now apply price_pos, Pos|apply pos_INR].
Qed.

Variable utility_with : nat -> state -> R.      (* U_j(f_js - a_j) of job j with these GPUs *)
(* line 29: mu_j *)
Definition payoff_in (j : nat) (g x : state) : R := utility_with j x - cost_of g x.

(* The recursion that compares payoffs, and in which null means that this job is skipped: the sum of payoffs, and the
   allocations of the jobs from j on. *)
Fixpoint by_payoff (m j : nat) (g : state) : R * list (nat * state) :=
  match m with
  | O => (0, [])
  | S m => if full g then (0, []) else
      match find_alloc j g with
      | None => by_payoff m (S j) g
      | Some x =>
          let taken := by_payoff m (S j) (plus g x) in
          let skipped := by_payoff m (S j) g in
          if Rle_dec (fst skipped) (payoff_in j g x + fst taken)
          then (payoff_in j g x + fst taken, (j, x) :: snd taken) else skipped
      end
  end.

(* The result of any decisions: the selected jobs that find GPUs take them in turn. *)
Fixpoint decided_by (selected : nat -> bool) (m j : nat) (g : state) : R * list (nat * state) :=
  match m with
  | O => (0, [])
  | S m =>
      match (if selected j then find_alloc j g else None) with
      | None => decided_by selected m (S j) g
      | Some x =>
          let rest := decided_by selected m (S j) (plus g x) in (payoff_in j g x + fst rest, (j, x) :: snd rest)
      end
  end.

Lemma full_finds_nothing g j : finds_free_gpus -> full g = true -> find_alloc j g = None.
Proof.
  intros Free Fg. destruct (find_alloc j g) as [x|] eqn:E; [exfalso|auto].
  destruct (Free j g x E) as (W & h & r & Hh & Hr & X). specialize (W h r Hh Hr). unfold plus in W.
  unfold full in Fg. rewrite forallb_forall in Fg. specialize (Fg h ltac:(apply in_seq; lia)). cbn in Fg.
  rewrite forallb_forall in Fg. specialize (Fg r ltac:(apply in_seq; lia)). apply Nat.eqb_eq in Fg. lia.
Qed.

Lemma full_decides_nothing selected m j g : finds_free_gpus -> full g = true -> decided_by selected m j g = (0, []).
Proof.
  intros Free Fg. revert j. induction m; intros j; cbn [decided_by]; [auto|]. rewrite full_finds_nothing by auto.
  destruct (selected j); auto.
Qed.

Lemma decided_by_ext s s' m j g : (forall i, (j <= i)%nat -> s i = s' i) -> decided_by s m j g = decided_by s' m j g.
Proof.
  revert j g. induction m; intros j g E; cbn [decided_by]; [auto|]. rewrite E by lia.
  destruct (if s' j then find_alloc j g else None) as [x|];
    [rewrite (IHm (S j) (plus g x))|rewrite (IHm (S j) g)]; auto; intros; apply E; lia.
Qed.

(* Claim hadar/algorithm-2-payoffs: with payoffs compared, and null meaning that this job is skipped, the recursion
   finds the best of all decisions to take or skip. FIND_ALLOC returns free GPUs, at least one. *)
Theorem algorithm_2_payoffs g : finds_free_gpus ->
  (exists selected, by_payoff jobs 0 g = decided_by selected jobs 0 g) /\
  forall selected, fst (decided_by selected jobs 0 g) <= fst (by_payoff jobs 0 g).
Proof.
  intros Free. split.
  - cut (forall m j g, exists selected, by_payoff m j g = decided_by selected m j g); [auto|].
    induction m as [|m IH]; intros j g'; [now exists (fun _ => true)|]. cbn [by_payoff].
    destruct (full g') eqn:Fg; [exists (fun _ => true); now rewrite full_decides_nothing|].
    assert (With : forall b x, exists s, s j = b /\ by_payoff m (S j) x = decided_by s m (S j) x).
    { intros b x. destruct (IH (S j) x) as (s & E). exists (fun i => if Nat.eqb i j then b else s i).
      rewrite Nat.eqb_refl. split; [auto|]. rewrite E. apply decided_by_ext. intros i Hi.
      destruct (Nat.eqb_spec i j); [lia|auto]. }
    destruct (find_alloc j g') as [x|] eqn:E; [destruct Rle_dec|].
    + destruct (With true (plus g' x)) as (s & Sj & Es). exists s. cbn [decided_by]. now rewrite Sj, E, Es.
    + destruct (With false g') as (s & Sj & Es). exists s. cbn [decided_by]. now rewrite Sj, Es.
    + destruct (With false g') as (s & Sj & Es). exists s. cbn [decided_by]. now rewrite Sj, Es.
  - intros selected. cut (forall m j g, fst (decided_by selected m j g) <= fst (by_payoff m j g)); [auto|].
    induction m as [|m IH]; intros j g'; [cbn; lra|]. cbn [by_payoff].
    destruct (full g') eqn:Fg; [rewrite full_decides_nothing by auto; cbn; lra|]. cbn [decided_by].
    destruct (selected j); destruct (find_alloc j g') as [x|]; try apply IH.
    + specialize (IH (S j) (plus g' x)). destruct Rle_dec; cbn [fst]; lra.
    + specialize (IH (S j) g'). destruct Rle_dec; cbn [fst]; lra.
Qed.

(* All calls of the recursion, as (idx, state); skips: null means that this job is skipped, else line 8. *)
Fixpoint calls (skips : bool) (m j : nat) (g : state) : list (nat * state) :=
  (j, g) ::
  match m with
  | O => []
  | S m => if full g then [] else
      match find_alloc j g with
      | None => if skips then calls skips m (S j) g else []
      | Some x => calls skips m (S j) (plus g x) ++ calls skips m (S j) g
      end
  end.

Definition at_level (i : nat) (p : nat * state) : bool := Nat.eqb (fst p) i.

Lemma level_below skips m j g i : (i < j)%nat -> filter (at_level i) (calls skips m j g) = [].
Proof.
  revert j g. induction m as [|m IH]; intros j g Hi; cbn [calls filter]; unfold at_level at 1; cbn [fst];
    (destruct (Nat.eqb_spec j i); [lia|]); [auto|].
  destruct (full g); [auto|]. destruct (find_alloc j g) as [x|]; [|destruct skips; auto].
  now rewrite filter_app, !IH by lia.
Qed.

Lemma level_size skips m j g i : (length (filter (at_level (j + i)) (calls skips m j g)) <= 2 ^ i)%nat.
Proof.
  revert j g i. induction m as [|m IH]; intros j g i; cbn [calls filter]; unfold at_level at 1; cbn [fst].
  - pose proof (Nat.pow_nonzero 2 i). destruct Nat.eqb; cbn; lia.
  - destruct i as [|i].
    + rewrite Nat.add_0_r, Nat.eqb_refl. cbn [length Nat.pow].
      replace (filter (at_level j) _) with (@nil (nat * state)); [auto|].
      destruct (full g); [auto|]. destruct (find_alloc j g) as [x|]; [|destruct skips; [|auto]];
        rewrite ?filter_app, ?level_below by lia; auto.
    + destruct (Nat.eqb_spec j (j + S i)); [lia|]. rewrite <- Nat.add_succ_comm.
      pose proof (Nat.pow_nonzero 2 i). destruct (full g); [cbn; lia|].
      pose proof (IH (S j) g i) as B. cbn [Nat.pow].
      destruct (find_alloc j g) as [x|]; [|destruct skips; [lia|cbn; lia]].
      pose proof (IH (S j) (plus g x) i). rewrite filter_app, app_length. lia.
Qed.

Lemma calls_within skips m j g p : finds_free_gpus -> within g -> In p (calls skips m j g) ->
  within (snd p) /\ (j <= fst p <= j + m)%nat.
Proof.
  intros Free. revert j g.
  induction m as [|m IH]; intros j g W [<-|I]; cbn [fst snd]; try (split; [auto|lia]); [destruct I|].
  destruct (full g); [destruct I|]. destruct (find_alloc j g) as [x|] eqn:E.
  - apply in_app_or in I as [I|I]; apply IH in I; try (split; [apply I|lia]); [now apply (Free j)|auto].
  - destruct skips; [|destruct I]. apply IH in I; [split; [apply I|lia]|auto].
Qed.

(* prod_h prod_r (c_h^r + 1) *)
Definition server_states : nat := product servers (fun h => product types (fun r => S (c h r))).
(* sum_{i=0}^n min {2^i, prod (c_h^r + 1)} *)
Definition state_bound : nat := list_sum (map (fun i => Nat.min (2 ^ i) server_states) (seq 0 (S jobs))).
Definition all_states : list (nat -> nat -> nat) :=
  functions (fun _ => O) (fun h => functions O (fun r => seq 0 (S (c h r))) types) servers.

Lemma all_states_length : length all_states = server_states.
Proof.
  unfold all_states, server_states. rewrite functions_length.
  assert (E : forall n f f', (forall i, f i = f' i) -> product n f = product n f').
  { induction n; intros f f' E; [auto|]. cbn. now rewrite (IHn f f' E), E. }
  apply E. intros h. cbv beta. rewrite functions_length. apply E. intros r. apply seq_length.
Qed.

Lemma all_states_complete g : within g -> exists g', In g' all_states /\
  forall h r, (h < servers)%nat -> (r < types)%nat -> g' h r = g h r.
Proof.
  intros W. destruct (finite_choice (fun _ => O) servers (fun h row =>
    In row (functions O (fun r => seq 0 (S (c h r))) types) /\ forall r, (r < types)%nat -> row r = g h r)) as (f & F).
  { intros h Hh. apply functions_complete. intros r Hr. apply in_seq. specialize (W h r Hh Hr). lia. }
  destruct (functions_complete (fun _ => O) (fun h => functions O (fun r => seq 0 (S (c h r))) types) servers f)
    as (g' & I & E); [intros h Hh; now apply F|].
  exists g'. split; [exact I|]. intros h r Hh Hr. rewrite E by auto. now apply F.
Qed.

(* Claim hadar/thm-1-states: Algorithm 2 has at most sum_{i=0}^n min {2^i, prod (c_h^r + 1)} states for n jobs: for
   fixed servers their number is linear in n. FIND_ALLOC returns free GPUs. *)
Theorem thm_1_states skips g : finds_free_gpus -> within g ->
  (exists states, (length states <= state_bound)%nat /\ forall i x, In (i, x) (calls skips jobs 0 g) ->
    exists x', In (i, x') states /\ forall h r, (h < servers)%nat -> (r < types)%nat -> x' h r = x h r) /\
  (state_bound <= (jobs + 1) * server_states)%nat.
Proof.
  intros Free W. split.
  - set (level := fun i => if 2 ^ i <=? server_states then filter (at_level i) (calls skips jobs 0 g)
      else map (fun x => (i, x)) all_states).
    exists (flat_map level (seq 0 (S jobs))). split.
    + unfold state_bound. generalize (seq 0 (S jobs)) as l. induction l as [|i l IH]; [auto|].
      cbn [flat_map map list_sum fold_right]. rewrite app_length. apply Nat.add_le_mono; [|exact IH]. unfold level.
      destruct (Nat.leb_spec (2 ^ i) server_states) as [Le|Gt].
      * rewrite Nat.min_l by auto. apply (level_size skips jobs 0 g i).
      * rewrite map_length, all_states_length, Nat.min_r by lia. auto.
    + intros i x I. destruct (calls_within skips jobs 0 g (i, x) Free W I) as (Wx & _ & Hi). cbn in Wx, Hi.
      assert (Li : In i (seq 0 (S jobs))) by (apply in_seq; lia).
      destruct (2 ^ i <=? server_states) eqn:B.
      * exists x. split; [|auto]. apply in_flat_map. exists i. split; [auto|]. unfold level. rewrite B.
        apply filter_In. split; [auto|]. apply Nat.eqb_refl.
      * destruct (all_states_complete x Wx) as (x' & Ix & E). exists x'. split; [|auto].
        apply in_flat_map. exists i. split; [auto|]. unfold level. rewrite B. apply in_map_iff. now exists x'.
  - unfold state_bound. replace (jobs + 1)%nat with (length (seq 0 (S jobs))) by (rewrite seq_length; lia).
    generalize (seq 0 (S jobs)) as l. induction l as [|i l IH]; [auto|]. cbn [map list_sum fold_right length Nat.mul].
    apply Nat.add_le_mono; [apply Nat.le_min_r|exact IH].
Qed.

End Algorithm2.

(* One type with two GPUs on one server, and jobs that take one free GPU each. *)
Definition one_free_gpu (j : nat) (g : state) : option state :=
  if Nat.ltb (g 0%nat 0%nat) 2 then Some (fun _ _ => 1%nat) else None.

Lemma one_free_gpu_found : finds_free_gpus 1 1 (fun _ _ => 2%nat) one_free_gpu.
Proof.
  intros j g x. unfold one_free_gpu. destruct (Nat.ltb_spec (g 0%nat 0%nat) 2); [|discriminate]. intros [= <-]. split.
  - intros h r Hh Hr. replace h with 0%nat by lia. replace r with 0%nat by lia. unfold plus. lia.
  - exists 0%nat, 0%nat. lia.
Qed.

Example algorithm_2_skips_met : can_be_met algorithm_2_skips.
Proof.
  intros H. apply (H 1 1 (fun _ _ => 2) 3 one_free_gpu (fun _ => 1%R) (fun _ => 4%R) (fun _ _ => 0))%nat. intros; lra.
Qed.

Example algorithm_2_payoffs_met : can_be_met algorithm_2_payoffs.
Proof.
  intros H.
  apply (H 1 1 (fun _ _ => 2) 3 one_free_gpu (fun _ => 1%R) (fun _ => 4%R) (fun _ _ => 2%R) (fun _ _ => 0))%nat.
  apply one_free_gpu_found.
Qed.

Example thm_1_states_met : can_be_met thm_1_states.
Proof.
  intros H. apply (H 1 1 (fun _ _ => 2) 3 one_free_gpu true (fun _ _ => 0))%nat; [apply one_free_gpu_found|].
  intros h r _ _. lia.
Qed.

(* -- HadarE: numbers of copies, steps, and nodes in a round -------------------------------------------------------- *)

(* job_ID of the i-th copy, i = 1, 2, ..., of a job *)
Definition job_id (max_job_count i parent_job_id : Z) : Z := (max_job_count * i + parent_job_id)%Z.
(* No two of the n copies of each of these jobs have the same job_ID. *)
Definition ids_unique (max_job_count n : Z) (parents : Z -> Prop) : Prop :=
  forall p q i i', parents p -> parents q -> (1 <= i <= n)%Z -> (1 <= i' <= n)%Z ->
  job_id max_job_count i p = job_id max_job_count i' q -> p = q /\ i = i'.

(* Claim hadar/job-id-bounded: the IDs are unique if 0 <= parent_job_id < max_job_count for all jobs. *)
Theorem job_id_bounded max_job_count n (parents : Z -> Prop) : (forall p, parents p -> (0 <= p < max_job_count)%Z) ->
  ids_unique max_job_count n parents.
Proof.
  intros B p q i i' P Q Hi Hi' E. apply B in P, Q. unfold job_id in E. assert (i = i') as -> by nia. split; lia.
Qed.

Example job_id_bounded_met : can_be_met job_id_bounded.
Proof. intros H. apply (H 4 2 (fun p => 0 <= p < 4))%Z. lia. Qed.

(* Claim hadar/job-id-exactly: jobs p <> q with n copies each share an ID if and only if |p - q| is max_job_count times
   1, 2, ... or n - 1. So for n >= 2 and parents 0, 1, ..., m - 1 the bound is also necessary. *)
Theorem job_id_exactly max_job_count n : (0 < max_job_count)%Z ->
  (forall p q, p <> q ->
    ((exists i i', (1 <= i <= n)%Z /\ (1 <= i' <= n)%Z /\ job_id max_job_count i p = job_id max_job_count i' q) <->
    exists k, (1 <= k <= n - 1)%Z /\ Z.abs (p - q) = (max_job_count * k)%Z)) /\
  (forall m, (2 <= n)%Z -> ids_unique max_job_count n (fun p => 0 <= p < m)%Z -> (m <= max_job_count)%Z).
Proof.
  unfold job_id. intros J. split.
  - intros p q N. split.
    + intros (i & i' & Hi & Hi' & E). exists (Z.abs (i' - i)).
      assert (D : (p - q = max_job_count * (i' - i))%Z) by (rewrite Z.mul_sub_distr_l; lia).
      assert (i' <> i) by (intros ->; lia). split; [lia|]. rewrite D, Z.abs_mul. lia.
    + intros (k & Hk & E). destruct (Z.le_gt_cases q p).
      * exists 1%Z, (1 + k)%Z. rewrite Z.mul_add_distr_l. lia.
      * exists (1 + k)%Z, 1%Z. rewrite Z.mul_add_distr_l. lia.
  - intros m N Un. apply Z.nlt_ge. intros M.
    destruct (Un 0 max_job_count 2 1)%Z; unfold job_id; lia.
Qed.

Example job_id_exactly_met : can_be_met job_id_exactly.
Proof. intros H. apply (H 4 3)%Z. lia. Qed.

(* m of n indices, those with the largest f *)
Lemma largest_ones n m f : (m <= n)%nat -> exists b : nat -> bool, sum n (fun i => if b i then 1 else 0) = INR m /\
  forall i j, (i < n)%nat -> (j < n)%nat -> b i = true -> b j = false -> f j <= f i.
Proof.
  induction m as [|m IH]; intros M; [exists (fun _ => false); split; [now apply sum_zero|discriminate]|].
  destruct IH as (b & Count & Large); [lia|].
  destruct (best_of_list (seq 0 n) (fun i => b i = false) f) as (top & I & Bt & Most).
  - apply NNPP. intros N. assert (E : INR m = INR n); [|apply INR_eq in E; lia]. rewrite <- Count.
    rewrite (sum_ext n _ (fun _ => 1)), sum_const; [ring|]. intros i Hi. destruct (b i) eqn:B; [auto|exfalso].
    apply N. exists i. split; [apply in_seq; lia|auto].
  - apply in_seq in I. exists (fun i => if Nat.eqb i top then true else b i). split.
    + rewrite S_INR, <- Count. apply eq_trans with
        (sum n (fun i => (if b i then 1 else 0) + (if Nat.eqb i top then 1 else 0)));
        [|rewrite sum_plus, sum_at; lia || auto].
      apply sum_ext; intros i _. destruct (Nat.eqb_spec i top) as [->|]; [rewrite Bt|destruct (b i)]; lra.
    + intros i j Hi Hj Bi Bj. destruct (Nat.eqb_spec j top); [discriminate|].
      destruct (Nat.eqb_spec i top) as [->|]; [apply Most; [apply in_seq; lia|auto]|now apply Large].
Qed.

(* Claim hadar/steps: the remaining steps of a job can be divided among its copies in proportion to their throughput:
   into integer parts with the same sum, each less than one step from its exact part. Every exact part is rounded down
   or up, up those with the largest remainders. *)
Theorem steps n throughput left : (0 < n)%nat -> (forall i, (i < n)%nat -> 0 < throughput i) ->
  let exact i := INR left * throughput i / sum n throughput in
  exists parts : nat -> nat, sum n (fun i => INR (parts i)) = INR left /\
    (forall i, (i < n)%nat -> Rabs (INR (parts i) - exact i) < 1) /\
    forall i j, (i < n)%nat -> (j < n)%nat -> exact i < INR (parts i) -> INR (parts j) <= exact j ->
      exact j - INR (parts j) <= exact i - (INR (parts i) - 1).
Proof.
  intros N V exact. set (total_speed := sum n throughput) in *.
  assert (Vt : 0 < total_speed).
  { unfold total_speed. rewrite <- (sum_zero n (fun _ => 0)) by auto.
    apply sum_lt with (a := 0%nat); [intros; left; now apply V|auto|now apply V]. }
  assert (Sum : sum n exact = INR left).
  { unfold exact. rewrite (sum_ext n _ (fun i => INR left / total_speed * throughput i)), sum_scal;
      [|intros; field; lra]. fold total_speed. field; lra. }
  assert (Pos : forall i, (i < n)%nat -> 0 <= exact i).
  { intros i Hi. unfold exact. pose proof (V i Hi). pose proof (pos_INR left). unfold Rdiv.
    apply Rmult_le_pos; [apply Rmult_le_pos; lra|left; now apply Rinv_0_lt_compat]. }
  destruct (finite_choice O n (fun i f => INR f <= exact i < INR f + 1)) as (floor & Floor).
  { intros i Hi. now apply nat_floor, Pos. }
  assert (Whole : exists q, sum n (fun i => INR (floor i)) = INR q).
  { clear - floor. induction n as [|n (q & E)]; [now exists O|].
    exists (q + floor n)%nat. cbn. rewrite E, plus_INR. auto. }
  destruct Whole as (q & Q).
  assert (Low : INR q <= INR left) by (rewrite <- Q, <- Sum; apply sum_le; intros; now apply Floor).
  assert (High : INR left < INR q + INR n).
  { rewrite <- Q, <- Sum, <- (Rmult_1_r (INR n)), <- sum_const, <- sum_plus.
    apply sum_lt with (a := 0%nat); [intros; left; now apply Floor|auto|now apply Floor]. }
  set (m := (left - q)%nat). apply INR_le in Low.
  assert (Lm : INR left = INR q + INR m) by (rewrite <- plus_INR; f_equal; lia).
  assert (Mn : (m <= n)%nat) by (apply INR_le; lra).
  destruct (largest_ones n m (fun i => exact i - INR (floor i)) Mn) as (b & Count & Large).
  assert (Up : forall i, (i < n)%nat -> b i = true -> INR (floor i) < exact i).
  { intros i Hi Bi. apply Rnot_le_lt. intros Le.
    assert (Less : sum n (fun i => exact i - INR (floor i)) < sum n (fun i => if b i then 1 else 0)).
    { apply sum_lt with (a := i); [|auto|rewrite Bi; lra]. intros j Hj. destruct (b j) eqn:Bj.
      - destruct (Floor j Hj). lra.
      - specialize (Large i j Hi Hj Bi Bj). lra. }
    rewrite sum_minus, Sum, Q, Count in Less. lra. }
  exists (fun i => (floor i + if b i then 1 else 0)%nat). split; [|split].
  - rewrite (sum_ext n _ (fun i => INR (floor i) + if b i then 1 else 0)), sum_plus, Q, Count; [lra|].
    intros i _. rewrite plus_INR. destruct (b i); cbn; lra.
  - intros i Hi. destruct (Floor i Hi). rewrite plus_INR. apply Rabs_def1; destruct (b i) eqn:B; cbn;
      try specialize (Up i Hi B); lra.
  - intros i j Hi Hj. rewrite !plus_INR. destruct (Floor i Hi), (Floor j Hj).
    destruct (b i) eqn:Bi; destruct (b j) eqn:Bj; cbn; intros; try lra.
    specialize (Large i j Hi Hj Bi Bj). lra.
Qed.

Example steps_met : can_be_met steps.
Proof. intros H. apply (H 2%nat (fun i => INR i + 1) 7%nat); [lia|]. intros i _. pose proof (pos_INR i). lra. Qed.

(* In a round each node runs a copy of a job, as (job, copy), or nothing. *)
Definition assignment := nat -> option (nat * nat).
(* Copies of unfinished jobs, each on one node at most. *)
Definition assigns (n copies : nat) (unfinished : nat -> Prop) (f : assignment) : Prop :=
  (forall i j k, (i < n)%nat -> f i = Some (j, k) -> unfinished j /\ (k < copies)%nat) /\
  (forall i i' jk, (i < n)%nat -> (i' < n)%nat -> f i = Some jk -> f i' = Some jk -> i = i').
(* Every node can run every job. No node is left free while a copy of an unfinished job runs nowhere. *)
Definition fills (n copies : nat) (unfinished : nat -> Prop) (f : assignment) : Prop :=
  forall i j k, (i < n)%nat -> f i = None -> unfinished j -> (k < copies)%nat ->
  exists i', (i' < n)%nat /\ f i' = Some (j, k).

Lemma no_free_node n copies (unfinished : nat -> Prop) f j : (n <= copies)%nat -> unfinished j ->
  fills n copies unfinished f -> forall i, (i < n)%nat -> exists jk, f i = Some jk.
Proof.
  intros Le Uj F i Hi. destruct (f i) as [jk|] eqn:E; [now exists jk|exfalso].
  set (all := None :: map (fun k => Some (j, k)) (seq 0 n)).
  assert (Once : NoDup all).
  { unfold all. constructor; [intros I; apply in_map_iff in I as (k & I & _); discriminate|].
    apply FinFun.Injective_map_NoDup; [intros k k' [= ->]; auto|apply seq_NoDup]. }
  assert (L : (length all <= length (map f (seq 0 n)))%nat).
  { apply NoDup_incl_length; [exact Once|]. intros o [<-|I].
    - apply in_map_iff. exists i. split; [auto|apply in_seq; lia].
    - apply in_map_iff in I as (k & <- & I). apply in_seq in I.
      destruct (F i j k Hi E Uj) as (i' & Hi' & E'); [lia|].
      apply in_map_iff. exists i'. split; [auto|apply in_seq; lia]. }
  unfold all in L. cbn [length] in L. rewrite !map_length, seq_length in L. lia.
Qed.

(* Claim hadar/corollary-assigned: with every job forked to n copies on n nodes, and memory for every job on every node,
   every node can be assigned a copy in every round, and is assigned one if the policy fills all nodes that can run
   one. In every round before the end some job is unfinished. *)
Theorem corollary_assigned n (unfinished : nat -> Prop) : (exists j, unfinished j) ->
  (exists f, assigns n n unfinished f /\ forall i, (i < n)%nat -> exists jk, f i = Some jk) /\
  forall f, assigns n n unfinished f -> fills n n unfinished f -> forall i, (i < n)%nat -> exists jk, f i = Some jk.
Proof.
  intros (j & Uj). split.
  - exists (fun i => Some (j, i)). split; [split|].
    + intros i j' k Hi [= <- <-]. auto.
    + intros i i' jk _ _ <- [= <-]. auto.
    + intros i _. now exists (j, i).
  - intros f _ F. now apply (no_free_node n n unfinished f j).
Qed.

Example corollary_assigned_met : can_be_met corollary_assigned.
Proof. intros H. apply (H 2%nat (fun j => j = 0%nat)). now exists 0%nat. Qed.

(* -- HadarE: rounds and utilisation of one job --------------------------------------------------------------------- *)

Section OneJob.
Variable n : nat.                       (* nodes *)
Variable speed : nat -> R.              (* work of each node in a round *)
Variable w : R.                         (* work of the job *)
Variable runs : nat -> nat -> bool.     (* runs k i: in round k a copy runs on node i *)

(* work of the nodes in round k, S_x if x nodes run copies *)
Definition capacity_of (k : nat) : R := sum n (fun i => if runs k i then speed i else 0).
(* Section V-B: the work left is divided in proportion to speed. A node does its part, or what it can in the round. *)
Definition done_in (k : nat) (left : R) (i : nat) : R :=
  if runs k i then Rmin (speed i) (left * speed i / capacity_of k) else 0.
Fixpoint left_after (k : nat) : R :=
  match k with O => w | S k => left_after k - sum n (done_in k (left_after k)) end.
(* T_i^B / T_S of node i in round k *)
Definition busy_time (k i : nat) : R := done_in k (left_after k) i / speed i.
(* The job takes m rounds. *)
Definition takes_rounds (m : nat) : Prop := left_after m = 0 /\ forall k, (k < m)%nat -> 0 < left_after k.
(* CRU(k) = sum_i T_i^B / (T_S n), and CRU over m rounds *)
Definition CRU_in (k : nat) : R := / INR n * sum n (busy_time k).
Definition CRU (m : nat) : R := / INR m * sum m CRU_in.
End OneJob.

(* The nodes with p run copies in all rounds; x of them. *)
Definition always (p : nat -> bool) (k i : nat) : bool := p i.
Definition count (n : nat) (p : nat -> bool) : R := sum n (fun i => if p i then 1 else 0).
Definition rate_of (n : nat) (speed : nat -> R) (p : nat -> bool) : R := sum n (fun i => if p i then speed i else 0).

Lemma rate_positive n speed p : (forall i, (i < n)%nat -> 0 < speed i) -> (exists i, (i < n)%nat /\ p i = true) ->
  0 < rate_of n speed p.
Proof.
  intros V (i & Hi & Pi). rewrite <- (sum_zero n (fun _ => 0)) by auto.
  apply sum_lt with (a := i); [|auto|rewrite Pi; auto].
  intros k Hk. specialize (V k Hk). destruct (p k); lra.
Qed.

Lemma done_sum n speed p left k : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < rate_of n speed p ->
  (forall i, (i < n)%nat -> done_in n speed (always p) k left i / speed i =
    (if p i then 1 else 0) * (Rmin (rate_of n speed p) left / rate_of n speed p)) /\
  sum n (done_in n speed (always p) k left) = Rmin (rate_of n speed p) left.
Proof.
  intros V P. change (capacity_of n speed (always p)) with (fun _ : nat => rate_of n speed p).
  assert (E : forall i, (i < n)%nat -> done_in n speed (always p) k left i =
    Rmin (rate_of n speed p) left / rate_of n speed p * (if p i then speed i else 0)).
  { intros i Hi. unfold done_in, always. change (capacity_of n speed _ k) with (rate_of n speed p).
    specialize (V i Hi). set (s := rate_of n speed p) in *. destruct (p i); [|ring].
    destruct (Rle_lt_dec s left) as [Le|Lt].
    - rewrite (Rmin_left s) by auto. rewrite Rmin_left; [field; lra|].
      apply Rmult_le_reg_r with s; [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
    - rewrite (Rmin_right s) by lra. rewrite Rmin_right; [field; lra|].
      apply Rmult_le_reg_r with s; [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra. }
  split.
  - intros i Hi. rewrite E by auto. specialize (V i Hi). destruct (p i); field; lra.
  - rewrite (sum_ext n _ _ E), sum_scal. fold (rate_of n speed p). field. lra.
Qed.

Lemma left_by_rounds n speed w p k : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < rate_of n speed p -> 0 <= w ->
  left_after n speed w (always p) k = Rmax 0 (w - INR k * rate_of n speed p).
Proof.
  intros V P W. induction k as [|k IH]; [cbn; rewrite Rmax_right; lra|]. cbn [left_after].
  rewrite (proj2 (done_sum n speed p _ k V P)), IH, S_INR. set (s := rate_of n speed p) in *.
  unfold Rmin, Rmax. destruct (Rle_dec 0 (w - INR k * s)), (Rle_dec 0 (w - (INR k + 1) * s)); destruct Rle_dec; lra.
Qed.

Lemma ceiling_unique x z : x <= IZR z < x + 1 -> ceiling x = z.
Proof.
  intros B. pose proof (ceiling_spec x). assert (IZR (ceiling x) < IZR (z + 1)) by (rewrite plus_IZR; lra).
  assert (IZR z < IZR (ceiling x + 1)) by (rewrite plus_IZR; lra).
  apply lt_IZR in H0, H1. lia.
Qed.

(* The number of rounds is w / S_x, rounded up. *)
Lemma rounds_ceiling n speed w p m : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < rate_of n speed p -> 0 < w ->
  (takes_rounds n speed w (always p) m <-> Z.of_nat m = ceiling (w / rate_of n speed p)).
Proof.
  intros V P W. set (s := rate_of n speed p) in *.
  assert (L : forall k, left_after n speed w (always p) k = Rmax 0 (w - INR k * s))
    by (intros; apply left_by_rounds; auto; lra).
  assert (E : w / s * s = w) by (field; lra).
  split.
  - intros (Z0 & Pos). rewrite L in Z0. symmetry. apply ceiling_unique. rewrite <- INR_IZR_INZ.
    assert (w <= INR m * s) by (unfold Rmax in Z0; destruct Rle_dec; lra). split.
    + apply Rmult_le_reg_r with s; lra.
    + destruct m as [|m]; [cbn in *; nra|]. specialize (Pos m ltac:(lia)). rewrite L in Pos. rewrite S_INR in *.
      assert (INR m * s < w) by (unfold Rmax in Pos; destruct Rle_dec; lra).
      apply Rmult_lt_reg_r with s; lra.
  - intros C. pose proof (ceiling_spec (w / s)) as B. rewrite <- C, <- INR_IZR_INZ in B. split.
    + rewrite L. apply Rmax_left. assert (w / s * s <= INR m * s) by (apply Rmult_le_compat_r; lra). lra.
    + intros k Hk. rewrite L. apply Rlt_le_trans with (w - INR k * s); [|apply Rmax_r].
      assert (INR k + 1 <= INR m) by (rewrite <- S_INR; apply le_INR; lia).
      assert (INR k * s < w / s * s) by (apply Rmult_lt_compat_r; lra). lra.
Qed.

Lemma rounds_exist n speed w p : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < rate_of n speed p -> 0 < w ->
  exists m, (0 < m)%nat /\ takes_rounds n speed w (always p) m.
Proof.
  intros V P W. pose proof (ceiling_spec (w / rate_of n speed p)) as B.
  assert (0 < w / rate_of n speed p) by now apply Rdiv_lt_0_compat.
  assert (0 < ceiling (w / rate_of n speed p))%Z by (apply lt_IZR; lra).
  exists (Z.to_nat (ceiling (w / rate_of n speed p))). split; [lia|]. apply rounds_ceiling; auto. lia.
Qed.

Lemma CRU_of_rounds n speed w p m : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < rate_of n speed p -> 0 < w ->
  takes_rounds n speed w (always p) m ->
  CRU n speed w (always p) m = count n p * (w / rate_of n speed p) / (INR n * INR m).
Proof.
  intros V P W (Z0 & _). set (s := rate_of n speed p) in *.
  assert (E : forall k, CRU_in n speed w (always p) k =
    / INR n * count n p / s * (left_after n speed w (always p) k - left_after n speed w (always p) (S k))).
  { intros k. cbn [left_after]. destruct (done_sum n speed p (left_after n speed w (always p) k) k V P) as (B & D).
    rewrite D. unfold CRU_in, busy_time. rewrite (sum_ext n _ _ B). fold s.
    rewrite (sum_ext n _ (fun i => Rmin s (left_after n speed w (always p) k) / s * (if p i then 1 else 0)))
      by (intros; ring). rewrite sum_scal. fold (count n p). unfold Rdiv. ring. }
  assert (T : forall k, sum k (CRU_in n speed w (always p)) =
    / INR n * count n p / s * (w - left_after n speed w (always p) k)).
  { induction k as [|k IH]; [cbn; ring|]. cbn [sum]. rewrite IH, E. ring. }
  unfold CRU. rewrite T, Z0, Rminus_0_r. unfold Rdiv. rewrite Rinv_mult. ring.
Qed.

(* Claim hadar/cru-formula: CRU_1^x = x (w / S_x) / (n ceil (w / S_x)), S_x being the work of the x nodes in a round. *)
Theorem cru_formula n speed w p : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < w ->
  (exists i, (i < n)%nat /\ p i = true) ->
  let x := count n p in let S_x := rate_of n speed p in
  (exists m, takes_rounds n speed w (always p) m) /\ forall m, takes_rounds n speed w (always p) m ->
    CRU n speed w (always p) m = x * (w / S_x) / (INR n * IZR (ceiling (w / S_x))).
Proof.
  intros V W Some1 x S_x. pose proof (rate_positive n speed p V Some1) as P. split.
  - destruct (rounds_exist n speed w p V P W) as (m & _ & T). now exists m.
  - intros m T. rewrite (CRU_of_rounds n speed w p m V P W T). apply rounds_ceiling in T; auto.
    unfold S_x. rewrite <- T, <- INR_IZR_INZ. reflexivity.
Qed.

Example cru_formula_met : can_be_met cru_formula.
Proof.
  intros H. apply (H 2%nat (fun i => INR i + 1) 7 (fun _ => true)); [|lra|exists 0%nat; split; [lia|auto]].
  intros i _. pose proof (pos_INR i). lra.
Qed.

(* Claim hadar/thm-3-rounds-alike: on equal nodes, a job that takes R_1 rounds takes ceil (R_1 / x) with x copies. *)
Theorem thm_3_rounds_alike n v w p1 p x rounds_1 rounds_x : 0 < v -> 0 < w -> (0 < x)%nat ->
  count n p1 = 1 -> count n p = INR x ->
  takes_rounds n (fun _ => v) w (always p1) rounds_1 -> takes_rounds n (fun _ => v) w (always p) rounds_x ->
  Z.of_nat rounds_x = ceiling (INR rounds_1 / INR x).
Proof.
  intros V W X C1 Cx T1 Tx.
  assert (Rate : forall q, rate_of n (fun _ => v) q = v * count n q).
  { intros q. unfold rate_of, count. rewrite <- sum_scal. apply sum_ext; intros. destruct (q i); ring. }
  assert (X1 : 1 <= INR x) by (apply (le_INR 1); lia).
  apply rounds_ceiling in T1; [|auto|rewrite Rate, C1; lra|auto].
  apply rounds_ceiling in Tx; [|auto|rewrite Rate, Cx; nra|auto].
  rewrite Rate, C1, Rmult_1_r in T1. rewrite Rate, Cx in Tx.
  pose proof (ceiling_spec (w / v)) as B1. rewrite <- T1, <- INR_IZR_INZ in B1.
  pose proof (ceiling_spec (w / (v * INR x))) as Bx. rewrite <- Tx, <- INR_IZR_INZ in Bx.
  replace (w / (v * INR x)) with (w / v / INR x) in Bx by (field; lra). set (y := w / v) in *.
  assert (Y : y / INR x * INR x = y) by (field; lra).
  symmetry. apply ceiling_unique. rewrite <- INR_IZR_INZ.
  assert (R1 : INR rounds_1 / INR x * INR x = INR rounds_1) by (field; lra). split.
  - apply Rmult_le_reg_r with (INR x); [lra|]. rewrite R1, <- mult_INR. apply le_INR.
    assert (L : INR rounds_1 < INR (rounds_x * x + 1)).
    { rewrite plus_INR, mult_INR. cbn.
      assert (y / INR x * INR x <= INR rounds_x * INR x) by (apply Rmult_le_compat_r; lra). lra. }
    apply INR_lt in L. lia.
  - apply Rmult_lt_reg_r with (INR x); [lra|]. rewrite Rmult_plus_distr_r, R1.
    assert (INR rounds_x * INR x < (y / INR x + 1) * INR x) by (apply Rmult_lt_compat_r; lra). lra.
Qed.

(* The x fastest nodes, if nodes are numbered from the fastest on. *)
Definition fastest (x i : nat) : bool := i <? x.

Lemma sum_fastest n x f : (x <= n)%nat -> sum n (fun i => if fastest x i then f i else 0) = sum x f.
Proof.
  intros X. replace n with (x + (n - x))%nat by lia. rewrite sum_append, (sum_zero (n - x)).
  - rewrite Rplus_0_r. apply sum_ext; intros i Hi. unfold fastest. destruct (Nat.ltb_spec i x); [auto|lia].
  - intros i _. unfold fastest. destruct (Nat.ltb_spec (x + i) x); [lia|auto].
Qed.

(* Claim hadar/thm-3-fastest: CRU_1^1 <= CRU_1^2 <= ... <= CRU_1^n on the x fastest nodes, the work being divided in
   proportion to speed. *)
Theorem thm_3_fastest n speed w x y : (forall i, (i < n)%nat -> 0 < speed i) -> 0 < w ->
  (forall i j, (i <= j < n)%nat -> speed j <= speed i) -> (1 <= x <= y)%nat -> (y <= n)%nat ->
  exists m_x m_y, takes_rounds n speed w (always (fastest x)) m_x /\ takes_rounds n speed w (always (fastest y)) m_y /\
    CRU n speed w (always (fastest x)) m_x <= CRU n speed w (always (fastest y)) m_y.
Proof.
  intros V W Sorted X Y.
  assert (Rate : forall z, (z <= n)%nat -> rate_of n speed (fastest z) = sum z speed)
    by (intros; now apply sum_fastest).
  assert (Count : forall z, (z <= n)%nat -> count n (fastest z) = INR z).
  { intros z Hz. unfold count. rewrite (sum_fastest n z (fun _ => 1)), sum_const by auto. ring. }
  assert (Pos : forall z, (1 <= z <= n)%nat -> 0 < rate_of n speed (fastest z)).
  { intros z Hz. apply rate_positive; auto. exists 0%nat. unfold fastest.
    destruct (Nat.ltb_spec 0 z); [split; [lia|auto]|lia]. }
  destruct (rounds_exist n speed w (fastest x) V (Pos x ltac:(lia)) W) as (mx & Mx & Tx).
  destruct (rounds_exist n speed w (fastest y) V (Pos y ltac:(lia)) W) as (my & My & Ty).
  exists mx, my. split; [auto|]. split; [auto|].
  rewrite (CRU_of_rounds n speed w _ mx), (CRU_of_rounds n speed w _ my) by (solve [auto|apply Pos; lia]).
  rewrite !Count, !Rate by lia. pose proof (Pos x ltac:(lia)) as Px. pose proof (Pos y ltac:(lia)) as Py.
  rewrite Rate in Px, Py by lia.
  set (tail := sum (y - x) (fun i => speed (x + i)%nat)).
  assert (Sy : sum y speed = sum x speed + tail) by (unfold tail; rewrite <- sum_append; f_equal; lia).
  set (least := speed (x - 1)%nat).
  assert (L0 : 0 < least) by (apply V; lia).
  assert (Tail : 0 <= tail <= INR (y - x) * least).
  { split; [apply sum_nonneg; intros; left; apply V; lia|]. unfold tail. rewrite <- sum_const.
    apply sum_le; intros i Hi. apply Sorted. lia. }
  assert (Head : INR x * least <= sum x speed) by (rewrite <- sum_const; apply sum_le; intros i Hi; apply Sorted; lia).
  assert (X1 : 1 <= INR x) by (apply (le_INR 1); lia).
  assert (D0 : 0 <= INR (y - x)) by apply pos_INR.
  assert (Yd : INR y = INR x + INR (y - x)) by (rewrite <- plus_INR; f_equal; lia).
  assert (Mean : INR x * sum y speed <= INR y * sum x speed).
  { rewrite Sy, Yd. assert (INR x * tail <= INR x * (INR (y - x) * least)) by (apply Rmult_le_compat_l; lra).
    assert (INR (y - x) * (INR x * least) <= INR (y - x) * sum x speed) by (apply Rmult_le_compat_l; lra). nra. }
  assert (Fewer : INR my <= INR mx).
  { apply rounds_ceiling in Tx; [|auto|rewrite Rate by lia; auto|auto].
    apply rounds_ceiling in Ty; [|auto|rewrite Rate by lia; auto|auto]. rewrite Rate in Tx, Ty by lia.
    pose proof (ceiling_spec (w / sum x speed)) as Bx. pose proof (ceiling_spec (w / sum y speed)) as By.
    rewrite <- Tx, <- INR_IZR_INZ in Bx. rewrite <- Ty, <- INR_IZR_INZ in By.
    assert (w / sum y speed <= w / sum x speed).
    { apply Rmult_le_compat_l; [lra|]. apply Rinv_le_contravar; lra. }
    assert (L : INR my < INR (mx + 1)) by (rewrite plus_INR; cbn; lra). apply INR_lt in L. apply le_INR. lia. }
  assert (N0 : 0 < INR n) by (apply lt_0_INR; lia). assert (Mx0 : 0 < INR mx) by now apply lt_0_INR.
  assert (My0 : 0 < INR my) by now apply lt_0_INR.
  set (sx := sum x speed) in *. set (sy := sum y speed) in *.
  replace (INR x * (w / sx) / (INR n * INR mx)) with (w / (INR n * sx * sy * INR mx * INR my) * (INR x * sy * INR my))
    by (field; lra).
  replace (INR y * (w / sy) / (INR n * INR my)) with (w / (INR n * sx * sy * INR mx * INR my) * (INR y * sx * INR mx))
    by (field; lra).
  apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; [auto|repeat apply Rmult_lt_0_compat; auto]|].
  apply Rmult_le_compat; [apply Rmult_le_pos; lra|lra|exact Mean|exact Fewer].
Qed.

(* The nodes on which copies run. *)
Definition running (f : nat -> assignment) (k i : nat) : bool := match f k i with Some _ => true | None => false end.

(* Claim hadar/thm-3-more: CRU_1^n = CRU_1^(n + j): copies beyond one for each node change nothing. In every round each
   node has the same part. *)
Theorem thm_3_more n j speed w f g :
  (forall k, assigns n n (fun i => i = 0%nat) (f k) /\ fills n n (fun i => i = 0%nat) (f k)) ->
  (forall k, assigns n (n + j) (fun i => i = 0%nat) (g k) /\ fills n (n + j) (fun i => i = 0%nat) (g k)) ->
  (forall k i, (i < n)%nat -> done_in n speed (running f) k (left_after n speed w (running f) k) i =
    done_in n speed (running g) k (left_after n speed w (running g) k) i) /\
  forall m, (takes_rounds n speed w (running f) m <-> takes_rounds n speed w (running g) m) /\
    CRU n speed w (running f) m = CRU n speed w (running g) m.
Proof.
  intros F G.
  assert (Runs : forall h copies, (n <= copies)%nat -> (forall k, assigns n copies (fun i => i = 0%nat) (h k) /\
    fills n copies (fun i => i = 0%nat) (h k)) -> forall k i, (i < n)%nat -> running h k i = true).
  { intros h copies Le H k i Hi. destruct (H k) as (_ & Fill).
    destruct (no_free_node n copies _ (h k) 0 Le eq_refl Fill i Hi) as (jk & E). unfold running. now rewrite E. }
  assert (E : forall k i, (i < n)%nat -> running f k i = running g k i).
  { intros k i Hi. rewrite (Runs f n), (Runs g (n + j)%nat) by (auto; lia). auto. }
  assert (Cap : forall k, capacity_of n speed (running f) k = capacity_of n speed (running g) k).
  { intros k. apply sum_ext; intros i Hi. now rewrite E. }
  assert (Part : forall k left i, (i < n)%nat ->
    done_in n speed (running f) k left i = done_in n speed (running g) k left i).
  { intros k left i Hi. unfold done_in. now rewrite E, Cap. }
  assert (Left : forall k, left_after n speed w (running f) k = left_after n speed w (running g) k).
  { induction k as [|k IH]; [auto|]. cbn. rewrite IH. f_equal. apply sum_ext; intros i Hi. now apply Part. }
  split; [intros k i Hi; rewrite Left; now apply Part|]. intros m. split.
  - unfold takes_rounds. rewrite Left. split; intros (Z0 & Pos); (split; [auto|]); intros k Hk.
    + rewrite <- Left. auto.
    + rewrite Left. auto.
  - unfold CRU. f_equal. apply sum_ext; intros k _. unfold CRU_in. f_equal.
    apply sum_ext; intros i Hi. unfold busy_time. now rewrite Left, Part.
Qed.

Example thm_3_rounds_alike_met : can_be_met thm_3_rounds_alike.
Proof.
  intros H. destruct (rounds_exist 2 (fun _ => 2) 7 (fun i => Nat.eqb i 0)) as (m1 & _ & T1);
    [intros; lra|unfold rate_of; cbn; lra|lra|].
  destruct (rounds_exist 2 (fun _ => 2) 7 (fun _ => true)) as (m2 & _ & T2);
    [intros; lra|unfold rate_of; cbn; lra|lra|].
  apply (H 2%nat 2 7 (fun i => Nat.eqb i 0) (fun _ => true) 2%nat m1 m2); auto; try lra; unfold count; cbn; lra.
Qed.

Example thm_3_fastest_met : can_be_met thm_3_fastest.
Proof.
  intros H. apply (H 2%nat (fun i => 2 - INR i) 7 1%nat 2%nat); try lra; try lia.
  - intros i Hi. assert (INR i <= 1) by (apply (le_INR i 1); lia). lra.
  - intros i j (Hi & _). apply le_INR in Hi. lra.
Qed.

Example thm_3_more_met : can_be_met thm_3_more.
Proof.
  assert (A : forall copies, (2 <= copies)%nat -> assigns 2 copies (fun i => i = 0%nat) (fun i => Some (0%nat, i)) /\
    fills 2 copies (fun i => i = 0%nat) (fun i => Some (0%nat, i))).
  { intros copies C. split; [split|].
    - intros i j q Hi [= <- <-]. split; [auto|lia].
    - intros i i' jk _ _ <- [= <-]. auto.
    - intros i j q _ E. discriminate. }
  intros H. apply (H 2%nat 1%nat (fun _ => 1) 7 (fun _ i => Some (0%nat, i)) (fun _ i => Some (0%nat, i)));
    intros k; apply A; lia.
Qed.

(* -- Theorem 2 is tight -------------------------------------------------------------------------------------------- *)

(* One slot and one server with 8 q^2 GPUs, jobs of one GPU, delta = 1 / (8 q^2). Each of the first jobs has a utility
   that just exceeds the price it finds: the price of the next GPU, or 1 if that is larger. *)
Definition many_gpus (q : nat) : nat := (8 * q * q)%nat.
Definition base (q : nat) : R := 1 + / INR q.
Definition rising_price (q i : nat) : R := base q ^ i / (2 * INR (many_gpus q)).
Definition rising_utility (q j s : nat) : R := Rmax 1 (rising_price q (Nat.min (S j) (many_gpus q - 1))).
Definition rising_jobs (q : nat) : nat := (2 * (many_gpus q - 1))%nat.

Section Rising.
Variable q : nat.
Hypothesis Q : (0 < q)%nat.
Let g := many_gpus q.
Let b := base q.
Let worthwhile_q := worthwhile 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q).
Let bounded_q := gangs_bounded 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu (/ INR g).
Let corrected_q := corrected 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) (/ INR g).
Let alpha_q := alpha' 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) (/ INR g).
Let algorithm_q :=
  algorithm_1 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu (rising_utility q) corrected_q.
Let optimum_q := optimum 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu (rising_utility q).

Lemma q_1 : 1 <= INR q.
Proof. apply (le_INR 1). lia. Qed.

Lemma g_8 : (8 <= g)%nat /\ INR g = 8 * INR q * INR q /\ 8 <= INR g.
Proof.
  pose proof q_1. assert (E : INR g = 8 * INR q * INR q) by (unfold g, many_gpus; rewrite !mult_INR; cbn; ring).
  split; [unfold g, many_gpus; nia|]. split; [auto|]. rewrite E. nra.
Qed.

Lemma b_bounds : 1 < b <= 2 /\ b - 1 = / INR q.
Proof.
  pose proof q_1. unfold b, base. assert (0 < / INR q) by (apply Rinv_0_lt_compat; lra).
  assert (/ INR q <= 1) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra). lra.
Qed.

Lemma power_large : 256 ^ q <= b ^ g.
Proof.
  destruct b_bounds as (B & _). pose proof q_1. replace g with (q * (8 * q))%nat by (unfold g, many_gpus; ring).
  rewrite pow_mult. replace 256 with (2 ^ 8) by ring. rewrite <- pow_mult. apply pow_incr. split; [lra|].
  assert (I : 0 < / INR q) by (apply Rinv_0_lt_compat; lra). pose proof (poly q (/ INR q) I) as Bern.
  rewrite Rinv_r in Bern by lra. unfold b, base. lra.
Qed.

Lemma q_power : INR q ^ 4 <= 256 ^ q /\ 32 * INR q ^ 2 <= 256 ^ q.
Proof.
  pose proof q_1. pose proof (poly q 1 Rlt_0_1) as Bern. replace (1 + 1) with 2 in Bern by ring.
  set (e := 2 ^ q) in *.
  assert (E : 256 ^ q = e ^ 8) by (unfold e; rewrite <- !pow_mult, Nat.mul_comm, pow_mult; f_equal; ring).
  rewrite E. assert (L : INR q <= e) by lra. assert (E2 : 2 <= e) by lra. split.
  - apply Rle_trans with (e ^ 4); [apply pow_incr; lra|]. apply Rle_pow; [lra|lia].
  - apply Rle_trans with (2 ^ 6 * e ^ 2).
    + assert (INR q ^ 2 <= e ^ 2) by (apply pow_incr; lra). assert (0 <= e ^ 2) by (apply pow_le; lra). lra.
    + replace (e ^ 8) with (e ^ 6 * e ^ 2) by ring. apply Rmult_le_compat_r; [apply pow_le; lra|apply pow_incr; lra].
Qed.

Let top := rising_price q (g - 1).

Lemma rising_price_pos i : 0 < rising_price q i.
Proof.
  destruct b_bounds. destruct g_8 as (_ & _ & P). apply Rdiv_lt_0_compat; [apply pow_lt; fold b; lra|]. fold g. lra.
Qed.

Lemma rising_price_S i : rising_price q (S i) = b * rising_price q i.
Proof. unfold rising_price. fold b. cbn [pow]. field. fold g. destruct g_8 as (_ & _ & P). lra. Qed.

Lemma rising_price_lt i j : (i < j)%nat -> rising_price q i < rising_price q j.
Proof.
  destruct b_bounds. intros L. induction L as [|j L IH]; rewrite rising_price_S;
    [pose proof (rising_price_pos i)|pose proof (rising_price_pos j)]; nra.
Qed.

Lemma top_value : 2 * INR g * top = b ^ (g - 1) /\ b * b ^ (g - 1) = b ^ g /\ 1 <= top.
Proof.
  destruct g_8 as (G & G1 & P).
  assert (E : 2 * INR g * top = b ^ (g - 1)) by (unfold top, rising_price; fold g b; field; lra).
  assert (B : b * b ^ (g - 1) = b ^ g) by (rewrite tech_pow_Rmult; f_equal; lia).
  split; [exact E|]. split; [exact B|]. destruct b_bounds as (B1 & _). pose proof power_large.
  destruct q_power as (_ & L).
  pose proof q_1. apply Rmult_le_reg_l with (2 * INR g); [lra|]. rewrite E.
  apply Rmult_le_reg_l with b; [lra|]. rewrite B.
  apply Rle_trans with (32 * INR q ^ 2); [|lra]. rewrite G1. assert (0 <= INR q * INR q) by nra. nra.
Qed.

Lemma utility_bounds j s : 1 <= rising_utility q j s <= top.
Proof.
  destruct top_value as (_ & _ & T). split; [apply Rmax_l|]. apply Rmax_lub; [auto|]. unfold top. fold g.
  destruct (Nat.eq_dec (Nat.min (S j) (g - 1)) (g - 1)) as [->|N]; [lra|]. left. apply rising_price_lt. lia.
Qed.

Lemma utility_top j s : (g - 2 <= j)%nat -> rising_utility q j s = top.
Proof.
  intros J. destruct top_value as (_ & _ & T). unfold rising_utility. fold g.
  replace (Nat.min (S j) (g - 1)) with (g - 1)%nat by lia. now apply Rmax_right.
Qed.

Lemma alone_q j : alone (fun _ => 1%nat) (rising_utility q) j = rising_utility q j 0.
Proof. unfold alone. cbn. apply Rmax_right. pose proof (utility_bounds j 0). lra. Qed.

Lemma U_max_q : U_max (rising_jobs q) (fun _ => 1%nat) (rising_utility q) = top.
Proof.
  destruct top_value as (_ & _ & T). destruct g_8 as (G & _). apply Rle_antisym.
  - apply largest_le; [lra|]. intros j _. rewrite alone_q. apply utility_bounds.
  - rewrite <- (utility_top (g - 2) 0), <- alone_q by lia. apply largest_ge. unfold rising_jobs. fold g. lia.
Qed.

Lemma gpus_q : gpus 1 1 (fun _ _ => g) = INR g.
Proof. unfold gpus. cbn. ring. Qed.

Lemma U_min_q : U_min 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) = / (2 * INR g).
Proof.
  destruct g_8 as (G & G1 & P). unfold U_min. rewrite gpus_q.
  replace (least_positive _ _) with 1; [cbn [INR]; field; lra|].
  destruct (least_positive_spec (rising_jobs q) (alone (fun _ => 1%nat) (rising_utility q))) as (_ & L & E).
  assert (First : alone (fun _ => 1%nat) (rising_utility q) 0 = 1).
  { rewrite alone_q. apply Rmax_left. fold g. replace (Nat.min 1 (g - 1)) with 1%nat by lia.
    apply Rmult_le_reg_r with (2 * INR g); [lra|]. unfold rising_price. fold g b. destruct b_bounds.
    pose proof q_1. replace (b ^ 1 / (2 * INR g) * (2 * INR g)) with b by (field; lra). nra. }
  destruct (L 0%nat) as (Pos & Le); [unfold rising_jobs; fold g; lia|lra|].
  destruct (E Pos) as (j & _ & Ej). rewrite alone_q in Ej. pose proof (utility_bounds j 0). lra.
Qed.

Lemma worthwhile_rising : worthwhile_q.
Proof.
  destruct g_8 as (G & _). split; [lia|]. rewrite gpus_q. split; [apply lt_0_INR; lia|].
  exists 0%nat. split; [unfold rising_jobs; fold g; lia|]. rewrite alone_q. pose proof (utility_bounds 0 0). lra.
Qed.

Lemma bounded_rising : bounded_q.
Proof.
  destruct g_8 as (G & _ & P). split; [split|].
  - apply Rinv_0_lt_compat; lra.
  - rewrite <- Rinv_1. apply Rinv_lt_contravar; lra.
  - intros j s t h r _ _ _. rewrite Rinv_l by lra. cbn. lra.
Qed.

Lemma ratio_q : top / / (2 * INR g) = b ^ (g - 1).
Proof. destruct top_value as (<- & _). destruct g_8 as (_ & _ & P). field. lra. Qed.

Lemma corrected_price i : corrected_q 0 0 (INR i) = rising_price q i.
Proof.
  destruct g_8 as (G & _ & P). destruct b_bounds as (B & _).
  unfold corrected_q, corrected, price. rewrite U_max_q, U_min_q, ratio_q, <- (Rpower_pow (g - 1)), Rpower_mult by lra.
  replace (INR (g - 1) * (INR i / ((1 - / INR g) * INR g))) with (INR i).
  - rewrite Rpower_pow by lra. unfold rising_price. fold g b. field. lra.
  - rewrite minus_INR by lia. change (INR 1) with 1. field. lra.
Qed.

Lemma alpha_rising : alpha_q = 8 * INR q.
Proof.
  destruct g_8 as (G & G1 & P).
  destruct b_bounds as (B & B1). pose proof q_1. unfold alpha_q, alpha', log_ratio. rewrite U_max_q, U_min_q, ratio_q.
  rewrite <- (Rpower_pow (g - 1)) by lra. unfold Rpower at 1. rewrite ln_exp.
  replace (INR (g - 1) * ln b * / INR g / (1 - / INR g)) with (ln b)
    by (rewrite minus_INR by lia; change (INR 1) with 1; field; lra).
  rewrite exp_ln, B1, G1 by lra. rewrite Rmax_right; [field; lra|].
  apply Rle_trans with (8 * INR q); [lra|right; field; lra].
Qed.

(* The first 8 q^2 - 1 jobs are served, the others find a price that is equal to their utility. *)
Lemma rising_run check d : algorithm_q check d -> forall j, (j <= rising_jobs q)%nat ->
  used (fun _ => 1%nat) one_gpu (chosen d) j 0 0 0 = INR (Nat.min j (g - 1)) /\
  ((j < rising_jobs q)%nat -> d j = if j <? g - 1 then Some 0%nat else None).
Proof.
  intros A. destruct g_8 as (G & _).
  assert (Pay : forall j i, used (fun _ => 1%nat) one_gpu (chosen d) j 0 0 0 = INR i ->
    payoff 1 1 1 (fun _ => 1%nat) one_gpu (rising_utility q) corrected_q d j 0 =
    rising_utility q j 0 - rising_price q i).
  { intros j i E. unfold payoff, phi, price_before, total. cbn [sum]. rewrite E, corrected_price. cbn. ring. }
  assert (Decide : forall j, (j < rising_jobs q)%nat ->
    used (fun _ => 1%nat) one_gpu (chosen d) j 0 0 0 = INR (Nat.min j (g - 1)) ->
    d j = if j <? g - 1 then Some 0%nat else None).
  { intros j Hj E. specialize (Pay j _ E). specialize (A j Hj). unfold decides in A.
    destruct (Nat.ltb_spec j (g - 1)) as [L|L].
    - rewrite Nat.min_l in * by lia. destruct (d j) as [s|]; [destruct A as ((S0 & _) & _); f_equal; lia|exfalso].
      assert (Off : offered 1 1 1 (fun _ _ => g) (fun _ => 1%nat) one_gpu check d j 0).
      { split; [lia|]. intros _ t h r (Ht & Hh & Hr). replace t with 0%nat by lia. replace h with 0%nat by lia.
        replace r with 0%nat by lia. rewrite E, <- plus_INR. apply le_INR. unfold one_gpu. lia. }
      specialize (A 0%nat Off). rewrite Pay in A. pose proof (rising_price_lt j (S j) (Nat.lt_succ_diag_r j)).
      assert (rising_price q (S j) <= rising_utility q j 0); [|lra].
      unfold rising_utility. fold g. rewrite Nat.min_l by lia. apply Rmax_r.
    - destruct (d j) as [s|]; [exfalso|auto]. destruct A as ((S0 & _) & Pos & _). replace s with 0%nat in Pos by lia.
      rewrite Pay, Nat.min_r, utility_top in Pos by lia. fold top in Pos. lra. }
  intros j. induction j as [|j IH]; intros Hj; [split; [reflexivity|intros; apply Decide; auto]|].
  destruct IH as (E & Dj); [lia|]. specialize (Dj ltac:(lia)).
  assert (E' : used (fun _ => 1%nat) one_gpu (chosen d) (S j) 0 0 0 = INR (Nat.min (S j) (g - 1))).
  { unfold algorithm_q in A. erewrite used_step by (apply A; lia). rewrite E. unfold takes. rewrite Dj.
    destruct (Nat.ltb_spec j (g - 1)).
    - rewrite Nat.min_l, Nat.min_l, S_INR by lia. cbn. ring.
    - rewrite Nat.min_r, Nat.min_r by lia. ring. }
  split; [exact E'|]. intros L. now apply Decide.
Qed.

Lemma rising_sum m : sum m (fun i => base q ^ i) = INR q * (b ^ m - 1).
Proof.
  destruct b_bounds as (_ & B1). pose proof q_1. fold b.
  assert (E : INR q * (b - 1) = 1) by (rewrite B1; field; lra).
  induction m; cbn [sum pow]; [ring|]. rewrite IHm. apply Rminus_diag_uniq.
  replace (INR q * (b ^ m - 1) + b ^ m - INR q * (b * b ^ m - 1)) with ((1 - INR q * (b - 1)) * b ^ m) by ring.
  rewrite E. ring.
Qed.

Lemma rising_ALG check d : algorithm_q check d ->
  ALG (rising_jobs q) (fun _ => 1%nat) (rising_utility q) d <= INR g + INR q * b ^ g / (2 * INR g).
Proof.
  intros A. destruct g_8 as (G & G1 & P0). pose proof q_1.
  unfold ALG. erewrite P_worth by (exact A || lia).
  rewrite (sum_ext _ _ (fun j => if j <? g - 1 then rising_utility q j 0 else 0)).
  2:{ intros j Hj. unfold worth. rewrite (proj2 (rising_run check d A j ltac:(lia)) Hj). now destruct Nat.ltb. }
  unfold rising_jobs. fold g. replace (2 * (g - 1))%nat with ((g - 1) + (g - 1))%nat by lia. rewrite sum_append.
  rewrite (sum_zero (g - 1) (fun i => if g - 1 + i <? g - 1 then _ else 0)).
  2:{ intros i _. destruct (Nat.ltb_spec (g - 1 + i) (g - 1)); [lia|auto]. }
  apply Rle_trans with (sum (g - 1) (fun j => 1 + rising_price q (S j)) + 0).
  - apply Rplus_le_compat_r, sum_le. intros j Hj. destruct (Nat.ltb_spec j (g - 1)); [|lia].
    unfold rising_utility. fold g. rewrite Nat.min_l by lia. pose proof (rising_price_pos (S j)). apply Rmax_lub; lra.
  - rewrite sum_plus, sum_const, Rmult_1_r, Rplus_0_r. apply Rplus_le_compat; [apply le_INR; lia|].
    assert (Up : sum g (rising_price q) = INR q * (b ^ g - 1) / (2 * INR g)).
    { unfold rising_price. fold g. rewrite (sum_ext g _ (fun i => / (2 * INR g) * base q ^ i)), sum_scal, rising_sum;
        [field; lra|intros; field; lra]. }
    assert (Shift : sum g (rising_price q) = rising_price q 0 + sum (g - 1) (fun j => rising_price q (S j))).
    { replace g with (1 + (g - 1))%nat at 1 by lia. rewrite sum_append. cbn. ring. }
    pose proof (rising_price_pos 0). assert (0 < / (2 * INR g)) by (apply Rinv_0_lt_compat; lra).
    replace (INR q * b ^ g / (2 * INR g)) with (INR q * (b ^ g - 1) / (2 * INR g) + INR q * / (2 * INR g))
      by (field; lra).
    assert (0 < INR q * / (2 * INR g)) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

Lemma rising_optimum opt : optimum_q opt -> b ^ (g - 1) / 2 <= opt.
Proof.
  intros (_ & M). destruct g_8 as (G & _ & P0). destruct top_value as (T & _).
  set (d := fun j => if g - 2 <=? j then Some 0%nat else None).
  assert (V : forall j s, d j = Some s -> (s < 1)%nat) by (intros j s; unfold d; destruct Nat.leb; intros [= <-]; lia).
  assert (Tail : forall x, sum (rising_jobs q) (fun j => if g - 2 <=? j then x else 0) = INR g * x).
  { intros x. unfold rising_jobs. fold g. replace (2 * (g - 1))%nat with ((g - 2) + g)%nat by lia. rewrite sum_append.
    rewrite sum_zero; [|intros j Hj; destruct (Nat.leb_spec (g - 2) j); [lia|auto]].
    rewrite (sum_ext g _ (fun _ => x)), sum_const; [ring|].
    intros j _. destruct (Nat.leb_spec (g - 2) (g - 2 + j)); [auto|lia]. }
  replace (b ^ (g - 1) / 2) with (p2_value (rising_jobs q) (fun _ => 1%nat) (rising_utility q) (chosen d)).
  - apply M. split; [split; [|split]|].
    + intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; lra.
    + intros t h r _. unfold used. rewrite (sum_ext _ _ (fun j => if g - 2 <=? j then 1 else 0)), Tail; [lra|].
      intros j _. rewrite (sum_chosen (fun _ => 1%nat) d j (fun s => INR (one_gpu j s t h r))) by apply V.
      unfold d. now destruct Nat.leb.
    + intros j _. now apply (one_schedule (fun _ => 1%nat)), V.
    + intros j s _ _. unfold chosen. destruct (d j); [destruct Nat.eqb|]; auto.
  - unfold p2_value, p2_value_before.
    rewrite (sum_ext _ _ (fun j => if g - 2 <=? j then top else 0)), Tail; [rewrite <- T; field|].
    intros j _. rewrite (sum_chosen (fun _ => 1%nat) d j (rising_utility q j)) by apply V. unfold d.
    destruct (Nat.leb_spec (g - 2) j); [now apply utility_top|auto].
Qed.

(* (1 + alpha') ALG is at most a little more than OPT. *)
Lemma rising_close check d opt : algorithm_q check d -> optimum_q opt ->
  0 < opt <= (1 + alpha_q) * ALG (rising_jobs q) (fun _ => 1%nat) (rising_utility q) d /\
  (1 + alpha_q) * ALG (rising_jobs q) (fun _ => 1%nat) (rising_utility q) d <= (1 + 290 / INR q) * opt.
Proof.
  intros A O. pose proof (rising_ALG check d A) as Up. pose proof (rising_optimum opt O) as Low.
  pose proof q_1. destruct g_8 as (G & G1 & _). destruct b_bounds as (B & B1). destruct top_value as (_ & T & _).
  pose proof power_large as Large. destruct q_power as (Q4 & _).
  set (x := b ^ (g - 1)) in *. rewrite <- T in *. set (p := INR q) in *.
  assert (X0 : 0 < x) by (apply pow_lt; lra).
  assert (X1 : p ^ 4 <= 2 * x) by nra. assert (B2 : b = 1 + / p) by lra. clear Large Q4.
  split; [split; [lra|]|].
  - exact (thm_2_sharper _ _ _ _ _ _ _ _ _ check d opt worthwhile_rising bounded_rising A O).
  - rewrite alpha_rising. fold p. set (alg := ALG _ _ _ d) in *.
    apply Rle_trans with ((1 + 8 * p) * (INR g + p * (b * x) / (2 * INR g))); [apply Rmult_le_compat_l; lra|].
    apply Rle_trans with ((1 + 290 / p) * (x / 2)).
    2:{ apply Rmult_le_compat_l; [|lra]. assert (0 < 290 / p) by (apply Rdiv_lt_0_compat; lra). lra. }
    rewrite G1, B2. apply Rmult_le_reg_r with (16 * p * p); [nra|].
    replace ((1 + 8 * p) * (8 * p * p + p * ((1 + / p) * x) / (2 * (8 * p * p))) * (16 * p * p))
      with ((1 + 8 * p) * (128 * p ^ 4 + (p + 1) * x)) by (field; lra).
    replace ((1 + 290 / p) * (x / 2) * (16 * p * p)) with ((8 * p * p + 2320 * p) * x) by (field; lra).
    assert (R1 : (1 + 8 * p) * (128 * p ^ 4) <= (1 + 8 * p) * (256 * x)) by (apply Rmult_le_compat_l; lra).
    assert (R2 : 0 <= p * x) by (apply Rmult_le_pos; lra). assert (R3 : x <= p * x) by nra. nra.
Qed.

End Rising.

(* Claim hadar/thm-2-tight: the factor 1 + alpha' is reached in the limit: OPT / ((1 + alpha') ALG) -> 1 for jobs whose
   utility just exceeds the price of the next GPU. *)
Theorem thm_2_tight eps : 0 < eps -> exists q0, forall q, (q0 <= q)%nat ->
  let g := many_gpus q in let delta := / INR g in
  worthwhile 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) /\
  gangs_bounded 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu delta /\
  forall check d opt,
    algorithm_1 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu (rising_utility q)
      (corrected 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) delta) check d ->
    optimum 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) one_gpu (rising_utility q) opt ->
    Rabs (opt / ((1 + alpha' 1 1 1 (fun _ _ => g) (rising_jobs q) (fun _ => 1%nat) (rising_utility q) delta) *
      ALG (rising_jobs q) (fun _ => 1%nat) (rising_utility q) d) - 1) < eps.
Proof.
  intros Eps. assert (E0 : 0 < 290 / eps) by (apply Rdiv_lt_0_compat; lra).
  set (q0 := Z.to_nat (up (290 / eps))).
  assert (Q0 : 290 / eps < INR q0).
  { destruct (archimed (290 / eps)) as (Up & _). unfold q0. rewrite INR_IZR_INZ, Z2Nat.id; [lra|].
    apply le_IZR. lra. }
  exists (S q0). intros q Hq g delta.
  assert (Q : (0 < q)%nat) by lia. split; [now apply worthwhile_rising|]. split; [now apply bounded_rising|].
  intros check d opt A O. destruct (rising_close q Q check d opt A O) as ((P0 & Le) & Close).
  set (most := _ * ALG _ _ _ d) in *. assert (M0 : 0 < most) by lra.
  assert (Q1 : INR q0 < INR q) by (apply lt_INR; lia). pose proof (q_1 q Q).
  assert (S0 : 290 / INR q < eps).
  { apply Rmult_lt_reg_r with (INR q); [lra|]. apply Rlt_le_trans with (eps * (290 / eps) + eps * (INR q - 290 / eps)).
    - replace (290 / INR q * INR q) with 290 by (field; lra). replace (eps * (290 / eps)) with 290 by (field; lra).
      assert (0 < eps * (INR q - 290 / eps)) by (apply Rmult_lt_0_compat; lra). lra.
    - right. field. lra. }
  assert (R0 : 0 < 290 / INR q) by (apply Rdiv_lt_0_compat; lra).
  assert (E : opt / most * most = opt) by (field; lra). apply Rabs_def1.
  - assert (opt / most <= 1); [|lra]. apply Rmult_le_reg_r with most; lra.
  - assert (1 - 290 / INR q <= opt / most); [|lra]. apply Rmult_le_reg_r with most; [auto|]. rewrite E.
    set (e := 290 / INR q) in *. nra.
Qed.

Example thm_2_tight_met : can_be_met thm_2_tight.
Proof. intros H. exact (H 1 Rlt_0_1). Qed.

(* -- Algorithm 1 round by round ------------------------------------------------------------------------------------ *)

(* Line 4 of Algorithm 1: in each round Algorithm 2 plans the jobs in the queue anew. Here there are one GPU and n
   slots, and all jobs arrive in the first one: job 0 needs all slots and has the utility 2; n others need one slot and
   have the utility 1. *)
Definition slots_needed (n j : nat) : nat := match j with O => n | _ => 1%nat end.
Definition long_first (n j : nat) : job_data :=
  Job 1 (INR (slots_needed n j)) 0 (fun _ => 1) (fun _ => match j with O => 2 | _ => 1 end).
(* eqs. (6), (7), with the least eta that the proof of Theorem 2 allows: Sum c / min_j (t_j^max W_j) = 1 *)
Definition long_U_max (n : nat) : R := largest (S n) (fun j => utility (long_first n j) 0).
Definition long_U_min (n : nat) : R := printed_U_min n 1 (S n) (long_first n) 1 1.

Section Rounds.
Variable n : nat.           (* slots; there are n + 1 jobs *)
(* Jobs in the order of arrival take a GPU where the payoff is positive; else the recursion with payoffs compared. *)
Variable in_order : bool.

Let utility_now (j : nat) (x : state) : R := utility (long_first n j) 0.
Definition payoff_of (j : nat) (g x : state) : R :=
  payoff_in 1 1 (fun _ _ => 1%nat) (fun _ => long_U_min n) (fun _ => long_U_max n) utility_now j g x.
Definition one : state := fun _ _ => 1%nat.
(* FIND_ALLOC in round t for jobs in the queue that can complete; ran j is the number of slots in which job j ran. *)
Definition find_one (t : nat) (ran : nat -> nat) (j : nat) (g : state) : option state :=
  if (ran j <? slots_needed n j) && (t + (slots_needed n j - ran j) <=? n) && (g 0 0 =? 0)%nat
  then if Rlt_dec 0 (payoff_of j g one) then Some one else None else None.
Definition planned (t : nat) (ran : nat -> nat) : list (nat * state) :=
  let low := fun _ : nat => long_U_min n in let high := fun _ : nat => long_U_max n in
  snd (if in_order
    then decided_by 1 1 (fun _ _ => 1%nat) (find_one t ran) low high utility_now (fun _ => true) (S n) 0 (fun _ _ => O)
    else by_payoff 1 1 (fun _ _ => 1%nat) (find_one t ran) low high utility_now (S n) 0 (fun _ _ => O)).
(* Slots in which each job ran before round t. *)
Fixpoint ran_before (t : nat) : nat -> nat :=
  match t with
  | O => fun _ => O
  | S t => fun j => (ran_before t j + if existsb (fun p => fst p =? j)%nat (planned t (ran_before t)) then 1 else 0)%nat
  end.
(* The utility of all jobs that complete within the n slots. *)
Definition rounds_ALG : R :=
  sum (S n) (fun j => if slots_needed n j <=? ran_before n j then utility (long_first n j) 0 else 0).
End Rounds.

Lemma long_prices n : (2 <= n)%nat -> long_U_min n = / (2 * INR n) /\ long_U_max n = 2.
Proof.
  intros N. assert (N0 : 2 <= INR n) by (replace 2 with (INR 2) by (cbn; ring); now apply le_INR). split.
  - unfold long_U_min, printed_U_min.
    set (f := fun j => utility (long_first n j) (n - 1 - arrival (long_first n j)) /
      (t_max 1 (long_first n) 1 j * INR (workers (long_first n j)))).
    assert (Max : forall j, t_max 1 (long_first n) 1 j = INR (slots_needed n j)).
    { intros j. unfold t_max. cbn. destruct (Rlt_dec 0 1); [|lra]. destruct (Rlt_dec 0 0); [lra|].
      set (s := slots_needed n j). replace (INR s / (1 * 1 * 1)) with (INR s) by field. rewrite INR_IZR_INZ.
      rewrite (ceiling_unique _ (Z.of_nat s)); [reflexivity|lra]. }
    assert (F : forall j, f j = match j with O => 2 / INR n | _ => 1 end).
    { intros j. unfold f. rewrite Max. destruct j; cbn [utility long_first workers slots_needed];
        change (INR 1) with 1; field; lra. }
    assert (Two : 0 < 2 / INR n <= 1).
    { split; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_le_reg_r with (INR n); [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
    destruct (least_positive_spec (S n) f) as (_ & L & E).
    destruct (L 0%nat) as (P & Le); [lia|rewrite F; lra|]. destruct (E P) as (j & _ & Ej).
    assert (least_positive (S n) f = 2 / INR n) as ->; [|field; lra].
    rewrite F in Ej, Le. destruct j; lra.
  - apply (largest_at (S n) (fun j => utility (long_first n j) 0) 0); [lia|cbn; lra|].
    intros j _. destruct j; cbn; lra.
Qed.

(* In each round the long job runs alone. *)
Lemma long_planned n in_order t ran : (2 <= n)%nat -> (t < n)%nat -> ran 0%nat = t ->
  planned n in_order t ran = [(0%nat, one)].
Proof.
  intros N T Ran. destruct (long_prices n N) as (Low & _). set (start := fun _ _ : nat => 0%nat).
  assert (N0 : 2 <= INR n) by (replace 2 with (INR 2) by (cbn; ring); now apply le_INR).
  assert (Low0 : 0 < long_U_min n < 1).
  { rewrite Low. split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_lt_contravar; lra. }
  assert (Pay : forall j, payoff_of n j start one = utility (long_first n j) 0 - long_U_min n).
  { intros j. unfold payoff_of, payoff_in, cost_of, price_in, start. cbn [sum]. change (INR 0) with 0.
    rewrite price_zero. unfold one. change (INR 1) with 1. ring. }
  assert (First : find_one n t ran 0 start = Some one).
  { unfold find_one. rewrite Ran. cbn [slots_needed]. destruct (Nat.ltb_spec t n); [|lia].
    destruct (Nat.leb_spec (t + (n - t)) n); [|lia]. cbn [andb start Nat.eqb]. rewrite Pay. cbn [utility long_first].
    destruct Rlt_dec; [auto|lra]. }
  assert (Busy : forall j, find_one n t ran j (plus start one) = None).
  { intros j. unfold find_one. now rewrite andb_false_r. }
  unfold planned. fold start. set (low := fun _ : nat => long_U_min n). set (high := fun _ : nat => long_U_max n).
  set (now := fun (j : nat) (_ : state) => utility (long_first n j) 0).
  assert (Later : forall m j, decided_by 1 1 (fun _ _ => 1%nat) (find_one n t ran) low high now (fun _ => true) m j
    (plus start one) = (0, [])).
  { induction m as [|m IH]; intros j; [reflexivity|]. cbn [decided_by]. rewrite Busy. apply IH. }
  destruct in_order.
  - cbn [decided_by]. rewrite First, Later. reflexivity.
  - set (rec := by_payoff 1 1 (fun _ _ => 1%nat) (find_one n t ran) low high now).
    assert (Full : forall m j, rec m j (plus start one) = (0, [])) by (intros [|m] j; reflexivity).
    assert (Others : forall m j, fst (rec m (S j) start) <= 1 - long_U_min n).
    { induction m as [|m IH]; intros j; [cbn; lra|]. unfold rec. cbn [by_payoff]. fold rec.
      change (full 1 1 (fun _ _ => 1%nat) start) with false. cbv iota.
      destruct (find_one n t ran (S j) start) as [x|] eqn:E; [|apply IH].
      assert (x = one) as ->.
      { unfold find_one in E. destruct (_ && _); [|discriminate]. destruct Rlt_dec; congruence. }
      destruct Rle_dec; [|apply IH]. cbn [fst]. rewrite Full. cbn [fst].
      pose proof (Pay (S j)) as P. unfold payoff_of in P. fold low high now in P. rewrite P. cbn. lra. }
    unfold rec at 1. cbn [by_payoff]. fold rec. change (full 1 1 (fun _ _ => 1%nat) start) with false. cbv iota.
    rewrite First, Full. cbn [fst snd]. pose proof (Pay 0%nat) as P. unfold payoff_of in P. fold low high now in P.
    rewrite P. cbn [utility long_first]. specialize (Others n 0%nat). destruct Rle_dec; [reflexivity|lra].
Qed.

Lemma long_runs n in_order t j : (2 <= n)%nat -> (t <= n)%nat ->
  ran_before n in_order t j = match j with O => t | _ => 0%nat end.
Proof.
  intros N. revert j. induction t as [|t IH]; intros j T; [now destruct j|]. cbn [ran_before].
  rewrite long_planned, IH by (auto; try lia; now rewrite IH by lia). destruct j; cbn; lia.
Qed.

(* The short jobs run, one in each slot. *)
Definition short_jobs_run (j : nat) : allocation := fun t _ _ => if Nat.eqb j (S t) then 1%nat else 0%nat.
Definition is_short (j : nat) : bool := negb (j =? 0)%nat.

Lemma short_jobs_feasible n : p1 n 1 1 (fun _ _ => 1%nat) (S n) (long_first n) 1 short_jobs_run is_short.
Proof.
  assert (G : forall j t, gang 1 1 (short_jobs_run j) t = if Nat.eqb j (S t) then 1 else 0).
  { intros j t. unfold gang, short_jobs_run. cbn [sum]. destruct Nat.eqb; cbn; ring. }
  split.
  - intros [|j] Hj; [now intros t h r _|]. cbn [is_short Nat.eqb negb]. split; [|split].
    + assert (B : forall t, bottleneck 1 1 (long_first n) (S j) (short_jobs_run (S j)) t *
        gang 1 1 (short_jobs_run (S j)) t * 1 = if Nat.eqb t j then 1 else 0).
      { intros t. rewrite G. unfold bottleneck, runs_on, short_jobs_run. cbn. rewrite (Nat.eqb_sym t).
        destruct (Nat.eqb_spec j t); cbn; destruct Rlt_dec; cbn; lra. }
      unfold work. rewrite (sum_ext n _ _ (fun t _ => B t)), sum_at by lia. cbn. lra.
    + intros t _. rewrite G. destruct Nat.eqb; [right|left]; reflexivity.
    + intros t h r _ T. cbn in T. lia.
  - intros t h r (T & _). rewrite (sum_ext (S n) _ (fun j => if Nat.eqb j (S t) then 1 else 0)).
    + rewrite sum_at by lia. cbn; lra.
    + intros j _. unfold short_jobs_run. now destruct Nat.eqb.
Qed.

(* Refutes hadar/thm-2-rounds: if jobs are planned anew in each round, line 4, OPT / ALG is not at most a constant times
   max(1, ln (U_max / U_min)), both for jobs in the order of arrival and for Algorithm 2 with payoffs compared, and
   although D_0 <= OPT / 2. *)
Theorem thm_2_rounds K : exists n v admitted,
  p1 n 1 1 (fun _ _ => 1%nat) (S n) (long_first n) 1 v admitted /\
  let value := p1_value n 1 1 (S n) (long_first n) v admitted in
  total n 1 1 (fun _ _ _ => long_U_min n * INR 1) <= value / 2 /\
  forall in_order, 0 < rounds_ALG n in_order /\
    K * Rmax 1 (ln (long_U_max n / long_U_min n)) * rounds_ALG n in_order < value.
Proof.
  set (q := S (S (Z.to_nat (up (8 * Rabs K))))). assert (Q2 : (2 <= q)%nat) by (unfold q; lia).
  assert (Q : 8 * Rabs K < INR q).
  { destruct (archimed (8 * Rabs K)) as (Up & _). unfold q. rewrite !S_INR, INR_IZR_INZ, Z2Nat.id; [lra|].
    apply le_IZR. pose proof (Rabs_pos K). lra. }
  exists (q * q)%nat, short_jobs_run, is_short. set (n := (q * q)%nat). split; [apply short_jobs_feasible|].
  assert (N : (2 <= n)%nat) by (unfold n; nia). assert (Nq : INR n = INR q * INR q) by apply mult_INR.
  assert (Q0 : 2 <= INR q) by (replace 2 with (INR 2) by (cbn; ring); now apply le_INR).
  destruct (long_prices n N) as (Low & High).
  assert (Value : p1_value n 1 1 (S n) (long_first n) short_jobs_run is_short = INR n).
  { unfold p1_value. rewrite (sum_ext (S n) _ (fun j => 1 - if Nat.eqb j 0 then 1 else 0)).
    - rewrite sum_minus, sum_const, sum_at, S_INR by lia. ring.
    - intros [|j] _; cbn; ring. }
  cbv zeta. rewrite Value. split.
  { unfold total. cbn [sum]. rewrite sum_const, Low. change (INR 1) with 1. rewrite Nq.
    replace (INR q * INR q * (0 + (0 + / (2 * (INR q * INR q)) * 1))) with (1 / 2) by (field; lra). nra. }
  intros in_order. assert (ALG2 : rounds_ALG n in_order = 2).
  { unfold rounds_ALG. rewrite <- (sum_at (S n) 0 2) by lia. apply sum_ext; intros j _.
    rewrite long_runs by lia. destruct j; cbn [slots_needed]; [|reflexivity]. now rewrite Nat.leb_refl. }
  rewrite ALG2. split; [lra|].
  assert (Alpha : Rmax 1 (ln (long_U_max n / long_U_min n)) <= 4 * INR q).
  { apply Rmax_lub; [lra|]. rewrite High, Low, Nq.
    replace (2 / / (2 * (INR q * INR q))) with (2 * INR q * (2 * INR q)) by (field; lra). rewrite ln_mult by lra.
    assert (ln (2 * INR q) < 2 * INR q); [|lra]. rewrite <- (ln_exp (2 * INR q)) at 2.
    apply ln_increasing; [lra|]. pose proof (exp_ineq1_le (2 * INR q)). lra. }
  set (alpha := Rmax 1 _) in *. assert (1 <= alpha) by apply Rmax_l. pose proof (Rle_abs K). pose proof (Rabs_pos K).
  assert (K * alpha <= Rabs K * (4 * INR q)).
  { apply Rle_trans with (Rabs K * alpha); [apply Rmult_le_compat_r|apply Rmult_le_compat_l]; lra. }
  rewrite Nq. assert (8 * Rabs K * INR q < INR q * INR q) by (apply Rmult_lt_compat_r; lra). lra.
Qed.

Example thm_2_rounds_met : can_be_met thm_2_rounds.
Proof. intros H. exact (H 1). Qed.

(* -- The example of section II-A ----------------------------------------------------------------------------------- *)

(* Types V100, P100 and K80; jobs J1, J2 and J3. *)
Definition by_three {A} (x y z : A) (i : nat) : A := match i with O => x | S O => y | _ => z end.
Definition example_gpus : nat -> nat := by_three 2%nat 3%nat 1%nat.
Definition example_gang : nat -> nat := by_three 3%nat 2%nat 2%nat.
Definition example_epochs : nat -> R := by_three 80 30 50.
(* X: epochs of the whole gang per round *)
Definition example_speed : nat -> nat -> R := by_three (by_three 40 20 30) (by_three 5 15 5) (by_three 10 2 20).
Definition Y_Gavel : nat -> nat -> R :=
  by_three (by_three 0.6 0.4 0) (by_three 0.2 0.6 0.2) (by_three 0.2 0 0.8).
(* GPUs of a type in use on average *)
Definition Y_used (r : nat) : R := sum 3 (fun j => INR (example_gang j) * Y_Gavel j r).
(* Job j has time on type r, which has too few GPUs for its gang. *)
Definition too_few (j r : nat) : Prop := 0 < Y_Gavel j r /\ (example_gpus r < example_gang j)%nat.

(* Claim hadar/y-gavel-capacity: on the six GPUs of the example Y^Gavel is infeasible: it uses 2.6 of 2 V100 and 2 of 1
   K80 on average, and gives gangs time on types with too few GPUs. *)
Theorem y_gavel_capacity :
  Y_used 0 = 2.6 /\ example_gpus 0 = 2%nat /\ Y_used 2 = 2 /\ example_gpus 2 = 1%nat /\
  too_few 0 0 /\ too_few 1 2 /\ too_few 2 2.
Proof. unfold Y_used, too_few. cbn. repeat split; lra || lia. Qed.

Example y_gavel_capacity_met : can_be_met y_gavel_capacity.
Proof. intros H. exact H. Qed.

(* The example as P1, on one server; X_j^r of eq. (1b) is per GPU, and a slot is a round. *)
Definition example_job (j : nat) : job_data :=
  Job (example_gang j) (example_epochs j) 0 (fun r => example_speed j r / INR (example_gang j)) (fun _ => 1).
Definition example_feasible (rounds : nat) (v : nat -> allocation) : Prop :=
  p1 rounds 1 3 (fun _ => example_gpus) 3 example_job 1 v (fun _ => true).
(* J1 on three P100 in four rounds, J2 on two P100 in two rounds, J3 on two V100 in five rounds. *)
Definition example_rounds (j t h r : nat) : nat :=
  match j, r with
  | 0, 1 => if t <? 4 then 3 else 0
  | 1, 1 => if t <? 4 then 0 else 2
  | 2, 0 => if t <? 5 then 2 else 0
  | _, _ => 0
  end%nat.

Lemma runs_on_one v t r : runs_on 1 v t r = (0 <? v t 0 r)%nat.
Proof.
  unfold runs_on. cbn [sum].
  destruct (Nat.ltb_spec 0 (v t 0 r)%nat) as [L|L]; destruct Rlt_dec as [L'|L']; auto; exfalso.
  - apply L'. rewrite Rplus_0_l. now apply lt_0_INR.
  - replace (v t 0 r)%nat with 0%nat in L' by lia. cbn in L'. lra.
Qed.

Lemma slowest_le X l r : In r l -> slowest X l <= X r.
Proof.
  destruct l as [|i l]; [intros []|]. cbn [slowest In]. induction l as [|k l IH]; cbn [fold_right In]; intros I.
  - destruct I as [<-|[]]. lra.
  - destruct I as [<-|[<-|I]]; [|apply Rmin_l|]; (apply Rle_trans with (fold_right (fun i m => Rmin (X i) m) (X i) l);
      [apply Rmin_r|apply IH; auto]).
Qed.

(* The epochs of job j in round t: at most those on any type in use. *)
Lemma example_rate (v : nat -> allocation) j t r : (r < 3)%nat -> (0 < v j t 0 r)%nat -> (j < 3)%nat ->
  bottleneck 1 3 example_job j (v j) t <= example_speed j r / INR (example_gang j).
Proof.
  intros Hr V _. apply (slowest_le (throughput (example_job j))). apply filter_In. split; [apply in_seq; lia|].
  rewrite runs_on_one. now apply Nat.ltb_lt.
Qed.

Lemma example_gang_sum (v : nat -> allocation) j t :
  gang 1 3 (v j) t = INR (v j t 0 0 + v j t 0 1 + v j t 0 2)%nat.
Proof. unfold gang. cbn [sum]. rewrite !plus_INR. ring. Qed.

Lemma example_capacity rounds v t r : example_feasible rounds v -> (t < rounds)%nat -> (r < 3)%nat ->
  (v 0 t 0 r + v 1 t 0 r + v 2 t 0 r <= example_gpus r)%nat.
Proof.
  intros (_ & Cap) Ht Hr. specialize (Cap t 0%nat r). cbn [sum] in Cap. apply INR_le. rewrite !plus_INR.
  rewrite Rplus_0_l in Cap. apply Cap. repeat split; auto.
Qed.

Lemma example_whole rounds v j t : example_feasible rounds v -> (j < 3)%nat -> (t < rounds)%nat ->
  (v j t 0 0 + v j t 0 1 + v j t 0 2 = 0 \/ v j t 0 0 + v j t 0 1 + v j t 0 2 = example_gang j)%nat.
Proof.
  intros (V & _) Hj Ht. destruct (V j Hj) as (_ & G & _). destruct (G t Ht) as [E|E]; rewrite example_gang_sum in E;
    [left; now apply (INR_eq _ 0)|right; now apply INR_eq].
Qed.

(* Claim hadar/fig-1-fewest: with whole gangs over any types six rounds are the fewest, as with every gang on one type,
   and at most 5 of the 6 GPUs are in use at once. *)
Theorem fig_1_fewest :
  (forall rounds v, example_feasible rounds v -> (6 <= rounds)%nat /\
    forall t, (t < rounds)%nat -> sum 3 (fun j => gang 1 3 (v j) t) <= 5) /\
  exists v, example_feasible 6 v /\
    forall j t r r', (j < 3)%nat -> (t < 6)%nat -> (0 < v j t 0 r)%nat -> (0 < v j t 0 r')%nat -> r = r'.
Proof.
  split.
  - intros rounds v F. split.
    + apply Nat.nlt_ge. intros Few.
      set (rate := fun j t => bottleneck 1 3 example_job j (v j) t * gang 1 3 (v j) t * 1).
      assert (Enough : forall j, (j < 3)%nat -> example_epochs j <= sum rounds (rate j)).
      { intros j Hj. destruct F as (V & _). destruct (V j Hj) as (W & _). apply Rge_le in W. exact W. }
      assert (Idle : forall j t, (v j t 0 0 + v j t 0 1 + v j t 0 2 = 0)%nat -> rate j t = 0).
      { intros j t E. unfold rate. rewrite example_gang_sum, E. cbn. ring. }
      assert (Rate : forall j t r, (j < 3)%nat -> (r < 3)%nat -> (0 < v j t 0 r)%nat ->
        (v j t 0 0 + v j t 0 1 + v j t 0 2 = example_gang j)%nat -> rate j t <= example_speed j r).
      { intros j t r Hj Hr P0 E. unfold rate. rewrite example_gang_sum, E, Rmult_1_r.
        assert (G : 0 < INR (example_gang j)) by (apply lt_0_INR; destruct j as [|[|[|j]]]; cbn; lia).
        pose proof (example_rate v j t r Hr P0 Hj) as B.
        apply Rmult_le_compat_r with (r := INR (example_gang j)) in B; [|lra].
        replace (example_speed j r / INR (example_gang j) * INR (example_gang j)) with (example_speed j r) in B
          by (field; lra). exact B. }
      assert (J3 : forall t, (t < rounds)%nat -> rate 2%nat t <= 10 /\ (rate 2%nat t = 10 ->
        (v 2 t 0 1 = 0 /\ v 2 t 0 0 + v 2 t 0 1 + v 2 t 0 2 = 2)%nat)).
      { intros t Ht. pose proof (example_capacity rounds v t 2 F Ht ltac:(lia)) as K80. cbn in K80.
        destruct (example_whole rounds v 2 t F ltac:(lia) Ht) as [E|E]; [rewrite Idle by auto; split; lra|].
        cbn in E. destruct (Nat.eq_dec (v 2 t 0 1)%nat 0) as [Z|Z].
        - pose proof (Rate 2%nat t 0%nat ltac:(lia) ltac:(lia) ltac:(lia) E) as B. cbn in B. split; [lra|lia].
        - pose proof (Rate 2%nat t 1%nat ltac:(lia) ltac:(lia) ltac:(lia) E) as B. cbn in B. split; lra. }
      assert (Full : forall t, (t < rounds)%nat -> rate 2%nat t = 10).
      { intros t Ht. apply Rle_antisym; [now apply J3|]. apply Rnot_lt_le. intros Less.
        assert (Lt : sum rounds (rate 2%nat) < sum rounds (fun _ => 10)).
        { apply sum_lt with (a := t); [intros; now apply J3|auto|auto]. }
        rewrite sum_const in Lt. specialize (Enough 2%nat ltac:(lia)). cbn in Enough.
        assert (INR rounds <= 5); [|lra].
        replace 5 with (INR 5) by (cbn; ring). apply le_INR. lia. }
      assert (Share : forall t, (t < rounds)%nat -> rate 0%nat t / 20 + rate 1%nat t / 15 <= 1).
      { intros t Ht. destruct (J3 t Ht) as (_ & T3). destruct (T3 (Full t Ht)) as (Z & E3).
        pose proof (example_capacity rounds v t 0 F Ht ltac:(lia)) as V100. cbn in V100.
        pose proof (example_capacity rounds v t 1 F Ht ltac:(lia)) as P100. cbn in P100.
        pose proof (example_capacity rounds v t 2 F Ht ltac:(lia)) as K80. cbn in K80.
        destruct (example_whole rounds v 0 t F ltac:(lia) Ht) as [E1|E1]; cbn in E1.
        - rewrite (Idle 0%nat t E1). assert (rate 1%nat t <= 15); [|lra].
          destruct (example_whole rounds v 1 t F ltac:(lia) Ht) as [E2|E2]; [rewrite Idle by auto; lra|]. cbn in E2.
          destruct (Nat.eq_dec (v 1 t 0 1)%nat 0) as [N|N].
          + destruct (Nat.eq_dec (v 1 t 0 0)%nat 0) as [N0|N0].
            * pose proof (Rate 1%nat t 2%nat ltac:(lia) ltac:(lia) ltac:(lia) E2) as B. cbn in B. lra.
            * pose proof (Rate 1%nat t 0%nat ltac:(lia) ltac:(lia) ltac:(lia) E2) as B. cbn in B. lra.
          + pose proof (Rate 1%nat t 1%nat ltac:(lia) ltac:(lia) ltac:(lia) E2) as B. cbn in B. lra.
        - destruct (example_whole rounds v 1 t F ltac:(lia) Ht) as [E2|E2]; cbn in E2; [|lia].
          rewrite (Idle 1%nat t E2). pose proof (Rate 0%nat t 1%nat ltac:(lia) ltac:(lia) ltac:(lia) E1) as B.
          cbn in B. lra. }
      assert (Total : sum rounds (fun t => rate 0%nat t / 20 + rate 1%nat t / 15) <= INR rounds * 1).
      { rewrite <- sum_const. apply sum_le. intros t Ht. now apply Share. }
      rewrite sum_plus in Total. unfold Rdiv in Total.
      rewrite (sum_ext rounds (fun t => rate 0%nat t * / 20) (fun t => / 20 * rate 0%nat t)),
        (sum_ext rounds (fun t => rate 1%nat t * / 15) (fun t => / 15 * rate 1%nat t)), !sum_scal in Total
        by (intros; ring).
      pose proof (Enough 0%nat ltac:(lia)) as W1. pose proof (Enough 1%nat ltac:(lia)) as W2. cbn in W1, W2.
      assert (INR rounds <= 5); [|lra].
        replace 5 with (INR 5) by (cbn; ring). apply le_INR. lia.
    + intros t Ht. cbn [sum]. rewrite !example_gang_sum, Rplus_0_l, <- !plus_INR.
      replace 5 with (INR 5) by (cbn; ring). apply le_INR.
      pose proof (example_capacity rounds v t 0 F Ht ltac:(lia)) as V100. cbn in V100.
      pose proof (example_capacity rounds v t 1 F Ht ltac:(lia)) as P100. cbn in P100.
      pose proof (example_capacity rounds v t 2 F Ht ltac:(lia)) as K80. cbn in K80.
      pose proof (example_whole rounds v 0 t F ltac:(lia) Ht) as E1. cbn in E1.
      pose proof (example_whole rounds v 1 t F ltac:(lia) Ht) as E2. cbn in E2.
      pose proof (example_whole rounds v 2 t F ltac:(lia) Ht) as E3. cbn in E3. lia.
  - exists example_rounds. split; [split|].
    + intros j Hj. assert (G : forall t, (t < 6)%nat -> gang 1 3 (example_rounds j) t = 0 \/
        gang 1 3 (example_rounds j) t = INR (example_gang j)).
      { intros t Ht. rewrite (example_gang_sum example_rounds).
        destruct j as [|[|[|j]]]; [| | |lia]; cbn [example_rounds]; destruct Nat.ltb; cbn; lra. }
      split; [|split; [exact G|intros t h r _ Ht; cbn in Ht; lia]].
      unfold work, bottleneck. apply Rle_ge.
      destruct j as [|[|[|j]]]; [| | |lia]; cbn [sum]; rewrite !(example_gang_sum example_rounds);
        cbn [filter seq]; rewrite !runs_on_one; cbn; lra.
    + intros t h r (Ht & Hh & Hr). cbn [sum]. rewrite Rplus_0_l, <- !plus_INR. apply le_INR.
      unfold example_rounds, example_gpus, by_three.
      destruct r as [|[|[|r]]]; [| | |lia]; destruct (Nat.ltb_spec t 4); destruct (Nat.ltb_spec t 5); lia.
    + intros j t r r' Hj Ht. destruct j as [|[|[|j]]]; [| | |lia]; destruct r as [|[|r]]; cbn; try lia;
        destruct r' as [|[|r']]; cbn; lia.
Qed.

Example fig_1_fewest_met : can_be_met fig_1_fewest.
Proof. intros H. exact H. Qed.

(* -- Gavel's rounds ------------------------------------------------------------------------------------------------ *)

Section GavelRound.
Variable types : nat.
Variable jobs : nat.
Variable cap : nat -> nat.      (* free GPUs of each type *)
Variable size : nat -> nat.     (* the gang of each job *)

(* GPUs of each job and type in the round. *)
Definition gavel_state := nat -> nat -> nat.
Definition has_none (w : gavel_state) (j : nat) : bool := forallb (fun r => w j r =? 0)%nat (seq 0 types).
Definition fits_on (w : gavel_state) (j r : nat) : bool :=
  (list_sum (map (fun i => w i r) (seq 0 jobs)) + size j <=? cap r)%nat.
(* A job without GPUs takes its whole gang on this type, if that fits. *)
Definition gavel_step (w : gavel_state) (jr : nat * nat) : gavel_state :=
  let (j, r) := jr in
  if has_none w j && fits_on w j r
  then fun i q => if ((i =? j) && (q =? r))%nat then size j else w i q else w.
(* The pairs (job, type) in the order of their priorities. *)
Definition gavel_round (order : list (nat * nat)) : gavel_state := fold_left gavel_step order (fun _ _ => O).
End GavelRound.

(* Claim hadar/table-1-gavel-task: Gavel never runs one job on GPUs of several types in the same round. *)
Theorem table_1_gavel_task types jobs cap size order j r r' : (r < types)%nat -> (r' < types)%nat ->
  let w := gavel_round types jobs cap size order in
  (0 < w j r)%nat -> (0 < w j r')%nat -> r = r' /\ w j r = size j.
Proof.
  intros Hr Hr'. cbv zeta. unfold gavel_round.
  cut (forall w, (forall i q q', (q < types)%nat -> (q' < types)%nat -> (0 < w i q)%nat -> (0 < w i q')%nat ->
      q = q' /\ w i q = size i) -> forall i q q', (q < types)%nat -> (q' < types)%nat ->
    (0 < fold_left (gavel_step types jobs cap size) order w i q)%nat ->
    (0 < fold_left (gavel_step types jobs cap size) order w i q')%nat ->
    q = q' /\ fold_left (gavel_step types jobs cap size) order w i q = size i).
  { intros H. apply (H (fun _ _ => O)); auto. intros; lia. }
  clear j r r' Hr Hr'. induction order as [|(j, r) order IH]; intros w W; [exact W|]. cbn [fold_left]. apply IH.
  unfold gavel_step. destruct (has_none types w j) eqn:None1; [|exact W]. destruct (fits_on _ _ _ _ _ _); [|exact W].
  cbn [andb]. intros i q q' Hq Hq'. unfold has_none in None1. rewrite forallb_forall in None1.
  destruct (Nat.eqb_spec i j) as [->|]; cbn [andb]; [|now apply W].
  assert (Z : forall p, (p < types)%nat -> w j p = 0%nat).
  { intros p Hp. apply Nat.eqb_eq, None1, in_seq. lia. }
  destruct (Nat.eqb_spec q r) as [->|]; destruct (Nat.eqb_spec q' r) as [->|]; rewrite ?Z by auto; lia || auto.
Qed.

Example table_1_gavel_task_met : can_be_met table_1_gavel_task.
Proof.
  intros H. apply (H 2 2 (fun _ => 2) (fun _ => 2) [(0, 1); (1, 0); (0, 0)] 0 1 1)%nat; cbn; lia.
Qed.

(* -- Equation (10) ------------------------------------------------------------------------------------------------- *)

(* eq. (10) *)
Definition estimated (pmi batch_size pcie_scaling model_weight dataset_size : R) : R :=
  pmi * batch_size * pcie_scaling / (model_weight * dataset_size).

(* Claims hadar/eq-10-speedups, hadar/eq-10-terms: the estimate of (10) rises with PMI, batch size and PCIe scaling, and
   falls with the weight of the model and the size of the data. The ratio of the estimates on two nodes, and their
   order, are the same for all jobs, so no factors give the speeds of the example in section II-A. With PMI =
   sqrt(TFLOPS / GB) or TFLOPS / sqrt(GB), more TFLOPS raise the estimate, and more memory lowers it. *)
Theorem eq_10 :
  (forall p p' b b' s s' m m' d d', 0 < p <= p' -> 0 < b <= b' -> 0 < s <= s' -> 0 < m' <= m -> 0 < d' <= d ->
    estimated p b s m d <= estimated p' b' s' m' d' /\
    (p < p' \/ b < b' \/ s < s' \/ m' < m \/ d' < d -> estimated p b s m d < estimated p' b' s' m' d')) /\
  (forall p s p' s' b m d b' m' d', 0 < p' -> 0 < s' -> 0 < b -> 0 < m -> 0 < d -> 0 < b' -> 0 < m' -> 0 < d' ->
    estimated p b s m d / estimated p' b s' m d = estimated p b' s m' d' / estimated p' b' s' m' d' /\
    (estimated p b s m d < estimated p' b s' m d <-> estimated p b' s m' d' < estimated p' b' s' m' d')) /\
  (forall p s b m d, (forall i, 0 < p i /\ 0 < s i /\ 0 < b i /\ 0 < m i /\ 0 < d i) ->
    ~ forall j r, (j < 3)%nat -> (r < 3)%nat -> estimated (p r) (b j) (s r) (m j) (d j) = example_speed j r) /\
  (forall tflops tflops' memory, 0 < tflops < tflops' -> 0 < memory ->
    sqrt (tflops / memory) < sqrt (tflops' / memory) /\ tflops / sqrt memory < tflops' / sqrt memory) /\
  (forall tflops memory memory', 0 < tflops -> 0 < memory < memory' ->
    sqrt (tflops / memory') < sqrt (tflops / memory) /\ tflops / sqrt memory' < tflops / sqrt memory).
Proof.
  assert (Ratio : forall p s p' s' b m d b' m' d',
    0 < p' -> 0 < s' -> 0 < b -> 0 < m -> 0 < d -> 0 < b' -> 0 < m' -> 0 < d' ->
    estimated p b s m d / estimated p' b s' m d = estimated p b' s m' d' / estimated p' b' s' m' d').
  { intros. unfold estimated. field. lra. }
  assert (Order : forall p s p' s' b m d, 0 < b -> 0 < m -> 0 < d ->
    (estimated p b s m d < estimated p' b s' m d <-> p * s < p' * s')).
  { intros p s p' s' b m d B M D. assert (F : 0 < b / (m * d)) by (apply Rdiv_lt_0_compat; nra).
    assert (E : forall u v, estimated u b v m d = u * v * (b / (m * d))) by (intros; unfold estimated; field; lra).
    rewrite !E. split; intros L; [now apply Rmult_lt_reg_r in L|now apply Rmult_lt_compat_r]. }
  split; [|split; [|split; [|split]]].
  - intros p p' b b' s s' m m' d d' Hp Hb Hs Hm Hd. unfold estimated.
    assert (N0 : 0 < p * b) by nra. assert (N1 : p * b <= p' * b') by (apply Rmult_le_compat; lra).
    assert (N2 : p * b * s <= p' * b' * s') by (apply Rmult_le_compat; lra).
    assert (N3 : 0 < p * b * s) by nra. assert (D0 : 0 < m' * d') by nra.
    assert (D1 : m' * d' <= m * d) by (apply Rmult_le_compat; lra).
    assert (I : / (m * d) <= / (m' * d')) by (apply Rinv_le_contravar; lra).
    assert (I0 : 0 < / (m * d)) by (apply Rinv_0_lt_compat; lra). unfold Rdiv. split.
    + apply Rmult_le_compat; lra.
    + intros Less.
      assert (Cases : p * b * s < p' * b' * s' \/ / (m * d) < / (m' * d')).
      { destruct Less as [L|[L|[L|L]]]; [left|left|left|right].
        - assert (p * b < p' * b') by nra. nra.
        - assert (p * b < p' * b') by nra. nra.
        - nra.
        - apply Rinv_lt_contravar; [nra|]. destruct L; nra. }
      destruct Cases as [C|C].
      * apply Rlt_le_trans with (p' * b' * s' * / (m * d)); [now apply Rmult_lt_compat_r|apply Rmult_le_compat_l; lra].
      * apply Rle_lt_trans with (p' * b' * s' * / (m * d)); [apply Rmult_le_compat_r; lra|apply Rmult_lt_compat_l; lra].
  - intros. split; [now apply Ratio|]. now rewrite !Order.
  - intros p s b m d Pos E. destruct (Pos 0%nat) as (P0 & S0 & B0 & M0 & D0), (Pos 2%nat) as (P2 & S2 & B2 & M2 & D2).
    pose proof (Ratio (p 0%nat) (s 0%nat) (p 2%nat) (s 2%nat) (b 0%nat) (m 0%nat) (d 0%nat)
      (b 2%nat) (m 2%nat) (d 2%nat) P2 S2 B0 M0 D0 B2 M2 D2) as R0.
    rewrite !E in R0 by lia. cbn in R0. lra.
  - intros f f' g F G. assert (0 < / g) by now apply Rinv_0_lt_compat.
    assert (0 < / sqrt g) by now apply Rinv_0_lt_compat, sqrt_lt_R0.
    split; [|apply Rmult_lt_compat_r; lra].
    apply sqrt_lt_1; [left; apply Rdiv_lt_0_compat; lra|left; apply Rdiv_lt_0_compat; lra|apply Rmult_lt_compat_r; lra].
  - intros f g g' F G. split.
    + apply sqrt_lt_1; [left; apply Rdiv_lt_0_compat; lra|left; apply Rdiv_lt_0_compat; lra|].
      apply Rmult_lt_compat_l; [auto|]. apply Rinv_lt_contravar; nra.
    + assert (0 < sqrt g) by (apply sqrt_lt_R0; lra). assert (sqrt g < sqrt g') by (apply sqrt_lt_1; lra).
      apply Rmult_lt_compat_l; [auto|]. apply Rinv_lt_contravar; nra.
Qed.

Example eq_10_met : can_be_met eq_10.
Proof. intros H. exact H. Qed.

(* -- HadarE: several jobs ------------------------------------------------------------------------------------------ *)

(* Job j runs copies on the nodes that the assignment f gives it. *)
Definition running_job (f : nat -> assignment) (j k i : nat) : bool :=
  match f k i with Some (q, _) => Nat.eqb q j | None => false end.
Definition left_of (n : nat) (speed w : nat -> R) (f : nat -> assignment) (j k : nat) : R :=
  left_after n speed (w j) (running_job f j) k.
(* CRU_k^x of k jobs, over m rounds *)
Definition CRU_jobs (n : nat) (speed : nat -> R) (k : nat) (w : nat -> R) (f : nat -> assignment) (m : nat) : R :=
  / INR m * sum m (fun t => / INR n * sum n (fun i => sum k (fun j => busy_time n speed (w j) (running_job f j) t i))).
(* Copies of unfinished jobs run, x of each job at most; all k jobs take m rounds. *)
Definition batch_run (n : nat) (speed : nat -> R) (k x : nat) (w : nat -> R) (f : nat -> assignment) (m : nat) : Prop :=
  (forall t, (t < m)%nat -> assigns n x (fun j => (j < k)%nat /\ 0 < left_of n speed w f j t) (f t) /\
    exists j, (j < k)%nat /\ 0 < left_of n speed w f j t) /\
  forall j, (j < k)%nat -> left_of n speed w f j m = 0.

(* Two jobs on three nodes: one runs on two nodes and the other on one, in turn. *)
Definition in_turn (t i : nat) : option (nat * nat) :=
  let first := if Nat.even t then 0%nat else 1%nat in
  match i with O => Some (first, O) | S O => Some (first, 1%nat) | _ => Some ((1 - first)%nat, O) end.

Lemma busy_jobs n speed k w f t i : 0 < speed i ->
  sum k (fun j => busy_time n speed (w j) (running_job f j) t i) <= 1.
Proof.
  intros V. assert (One : forall j, busy_time n speed (w j) (running_job f j) t i <=
    if running_job f j t i then 1 else 0).
  { intros j. unfold busy_time, done_in. destruct (running_job f j t i); [|unfold Rdiv; lra].
    apply Rmult_le_reg_r with (speed i); [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    rewrite Rmult_1_r, Rmult_1_l. apply Rmin_l. }
  apply Rle_trans with (sum k (fun j => if running_job f j t i then 1 else 0)); [now apply sum_le|].
  unfold running_job. destruct (f t i) as [(q, e)|]; [|rewrite sum_zero; [lra|auto]].
  destruct (Nat.lt_ge_cases q k) as [L|G].
  - rewrite (sum_ext k _ (fun j => if Nat.eqb j q then 1 else 0)), sum_at
      by (auto; intros; now rewrite Nat.eqb_sym). lra.
  - rewrite sum_zero; [lra|]. intros j Hj. destruct (Nat.eqb_spec q j); [lia|auto].
Qed.

Lemma CRU_jobs_at_most_1 n speed k w f m : (0 < n)%nat -> (0 < m)%nat -> (forall i, (i < n)%nat -> 0 < speed i) ->
  CRU_jobs n speed k w f m <= 1.
Proof.
  intros N M V. assert (N0 : 0 < INR n) by now apply lt_0_INR. assert (M0 : 0 < INR m) by now apply lt_0_INR.
  apply Rmult_le_reg_l with (INR m); [auto|]. unfold CRU_jobs. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
  rewrite <- sum_const. apply sum_le; intros t _. apply Rmult_le_reg_l with (INR n); [auto|].
  rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. rewrite <- sum_const.
  apply sum_le; intros i Hi. now apply busy_jobs, V.
Qed.

(* A round in which a job has work for all its nodes, three nodes of speed 1 *)
Lemma full_round w runs t : 0 < capacity_of 3 (fun _ => 1) runs t <= left_after 3 (fun _ => 1) w runs t ->
  left_after 3 (fun _ => 1) w runs (S t) = left_after 3 (fun _ => 1) w runs t - capacity_of 3 (fun _ => 1) runs t /\
  forall i, busy_time 3 (fun _ => 1) w runs t i = if runs t i then 1 else 0.
Proof.
  intros (C & Le). set (l := left_after 3 (fun _ => 1) w runs t) in *.
  set (s := capacity_of 3 (fun _ => 1) runs t) in *.
  assert (E : forall i, done_in 3 (fun _ => 1) runs t l i = if runs t i then 1 else 0).
  { intros i. unfold done_in. fold s. destruct (runs t i); [|auto]. apply Rmin_left.
    apply Rmult_le_reg_r with s; [auto|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  split.
  - cbn [left_after]. fold l. f_equal. apply sum_ext; intros i _. apply E.
  - intros i. unfold busy_time. fold l. rewrite E. destruct (runs t i); lra.
Qed.

(* Refutes hadar/thm-3-second-job: on three equal nodes, with jobs of six rounds on one node, CRU_1^1 < CRU_1^2 and
   CRU_1^2 < CRU_1^3 for one job, on any nodes; but CRU_2^2 < CRU_2^3 fails for two jobs, as two copies of each can keep
   all nodes busy in all of four rounds, the fewest for any copies, and no copies keep them busier. *)
Theorem thm_3_second_job :
  (forall p1 p2 p3 m1 m2 m3, count 3 p1 = 1 -> count 3 p2 = 2 -> count 3 p3 = 3 ->
    takes_rounds 3 (fun _ => 1) 6 (always p1) m1 -> takes_rounds 3 (fun _ => 1) 6 (always p2) m2 ->
    takes_rounds 3 (fun _ => 1) 6 (always p3) m3 ->
    CRU 3 (fun _ => 1) 6 (always p1) m1 < CRU 3 (fun _ => 1) 6 (always p2) m2 < CRU 3 (fun _ => 1) 6 (always p3) m3) /\
  (exists f, batch_run 3 (fun _ => 1) 2 2 (fun _ => 6) f 4 /\ CRU_jobs 3 (fun _ => 1) 2 (fun _ => 6) f 4 = 1) /\
  (forall x f m, batch_run 3 (fun _ => 1) 2 x (fun _ => 6) f m -> (4 <= m)%nat) /\
  (forall f m, batch_run 3 (fun _ => 1) 2 3 (fun _ => 6) f m -> CRU_jobs 3 (fun _ => 1) 2 (fun _ => 6) f m <= 1).
Proof.
  split; [|split; [|split]].
  - assert (H : forall p x m, count 3 p = IZR x -> (0 < x)%Z -> ceiling (6 / IZR x) = (6 / x)%Z ->
      takes_rounds 3 (fun _ => 1) 6 (always p) m ->
      CRU 3 (fun _ => 1) 6 (always p) m = IZR x * (6 / IZR x) / (3 * IZR (6 / x))).
    { intros p x m C X Ce T. apply IZR_lt in X.
      assert (P : 0 < rate_of 3 (fun _ => 1) p) by (unfold count in C; unfold rate_of; lra).
      rewrite (CRU_of_rounds 3 (fun _ => 1) 6 p m) by (auto; intros; lra).
      apply rounds_ceiling in T; [|intros; lra|auto|lra].
      change (rate_of 3 (fun _ => 1) p) with (count 3 p) in *. rewrite C in *. rewrite Ce in T.
      rewrite (INR_IZR_INZ m), T. rewrite (INR_IZR_INZ 3). reflexivity. }
    intros p1 p2 p3 m1 m2 m3 C1 C2 C3 T1 T2 T3.
    rewrite (H p1 1%Z m1), (H p2 2%Z m2), (H p3 3%Z m3); auto; try lia; try (apply ceiling_unique; cbn; lra).
    change (6 / 1)%Z with 6%Z. change (6 / 2)%Z with 3%Z. change (6 / 3)%Z with 2%Z. lra.
  - exists in_turn.
    assert (C : forall j t, (j < 2)%nat -> capacity_of 3 (fun _ => 1) (running_job in_turn j) t =
      if Bool.eqb (Nat.even t) (Nat.eqb j 0) then 2 else 1).
    { intros j t Hj. unfold capacity_of, running_job, in_turn. cbn [sum]. destruct j as [|[|j]]; [| |lia];
        destruct (Nat.even t); cbn; ring. }
    assert (L : forall j, (j < 2)%nat -> forall t, (t < 4)%nat ->
      capacity_of 3 (fun _ => 1) (running_job in_turn j) t <= left_of 3 (fun _ => 1) (fun _ => 6) in_turn j t /\
      left_of 3 (fun _ => 1) (fun _ => 6) in_turn j (S t) = left_of 3 (fun _ => 1) (fun _ => 6) in_turn j t -
        capacity_of 3 (fun _ => 1) (running_job in_turn j) t).
    { intros j Hj. unfold left_of. set (left := left_after 3 (fun _ => 1) 6 (running_job in_turn j)).
      assert (Next : forall t, capacity_of 3 (fun _ => 1) (running_job in_turn j) t <= left t -> left (S t) = left t -
        capacity_of 3 (fun _ => 1) (running_job in_turn j) t).
      { intros t Le. apply (full_round 6 (running_job in_turn j) t). split; [|auto].
        rewrite C by auto. destruct Bool.eqb; lra. }
      assert (L0 : left 0%nat = 6) by reflexivity.
      pose proof (Next 0%nat) as N0. pose proof (Next 1%nat) as N1.
      pose proof (Next 2%nat) as N2. pose proof (Next 3%nat) as N3.
      rewrite !C in * by auto. intros t Ht. rewrite C by auto.
      destruct j as [|[|j]]; [| |lia]; cbn in N0, N1, N2, N3;
        destruct t as [|[|[|[|t]]]]; [| | | |lia| | | | |lia]; cbn; lra. }
    assert (Pos : forall j t, (j < 2)%nat -> (t < 4)%nat -> 0 < left_of 3 (fun _ => 1) (fun _ => 6) in_turn j t).
    { intros j t Hj Ht. destruct (L j Hj t Ht) as (Le & _). rewrite C in Le by auto. destruct Bool.eqb; lra. }
    split; [split|].
    + intros t Ht. split; [|exists 0%nat; split; [lia|apply Pos; lia]]. split.
      * intros i j e _ E. unfold in_turn in E. assert (V : (j < 2)%nat /\ (e < 2)%nat).
        { destruct (Nat.even t); destruct i as [|[|i]]; injection E as <- <-; lia. }
        destruct V as (Vj & Ve). split; [split; [exact Vj|exact (Pos j t Vj Ht)]|exact Ve].
      * intros i i' jk Hi Hi' <-. unfold in_turn. destruct (Nat.even t);
          destruct i as [|[|[|i]]]; destruct i' as [|[|[|i']]]; intros; auto; try lia; discriminate.
    + intros j Hj. assert (E : left_of 3 (fun _ => 1) (fun _ => 6) in_turn j 0 = 6) by reflexivity.
      destruct (L j Hj 0%nat) as (_ & E0); [lia|]. destruct (L j Hj 1%nat) as (_ & E1); [lia|].
      destruct (L j Hj 2%nat) as (_ & E2); [lia|]. destruct (L j Hj 3%nat) as (_ & E3); [lia|].
      rewrite E3, E2, E1, E0, E, !C by auto. destruct j as [|[|j]]; [| |lia]; cbn; lra.
    + unfold CRU_jobs. rewrite (sum_ext 4 _ (fun _ => 1)), sum_const; [cbn; field|]. intros t Ht.
      rewrite (sum_ext 3 _ (fun _ => 1)), sum_const; [cbn; field|]. intros i Hi.
      assert (B : forall j, (j < 2)%nat -> busy_time 3 (fun _ => 1) 6 (running_job in_turn j) t i =
        if running_job in_turn j t i then 1 else 0).
      { intros j Hj. apply full_round. split; [rewrite C by auto; destruct Bool.eqb; lra|]. now apply (L j Hj t). }
      cbn [sum]. rewrite !B by lia. unfold running_job, in_turn. destruct (Nat.even t);
        destruct i as [|[|[|i]]]; try lia; cbn; lra.
  - intros x f m (_ & Left). set (left := left_of 3 (fun _ => 1) (fun _ => 6) f) in *.
    assert (Round : forall t, sum 2 (fun j => left j t) - 3 <= sum 2 (fun j => left j (S t))).
    { intros t. unfold left, left_of. cbn [left_after]. fold (left_of 3 (fun _ => 1) (fun _ => 6) f) left.
      rewrite sum_minus. enough (sum 2 (fun j => sum 3 (done_in 3 (fun _ => 1) (running_job f j) t (left j t))) <= 3)
        by (unfold left, left_of in *; lra).
      rewrite sum_swap. apply Rle_trans with (sum 3 (fun _ => 1)); [|cbn; lra]. apply sum_le; intros i _.
      rewrite (sum_ext 2 _ (fun j => busy_time 3 (fun _ => 1) 6 (running_job f j) t i)).
      - apply busy_jobs with (w := fun _ => 6). lra.
      - intros j _. unfold busy_time, left, left_of, Rdiv. now rewrite Rinv_1, Rmult_1_r. }
    assert (All : forall t, 12 - 3 * INR t <= sum 2 (fun j => left j t)).
    { induction t as [|t IH]; [cbn; unfold left, left_of; cbn; lra|]. specialize (Round t). rewrite S_INR. lra. }
    specialize (All m). rewrite sum_zero in All by auto. apply INR_le. cbn. lra.
  - intros f m (Run & Left). apply CRU_jobs_at_most_1; [lia| |intros; lra].
    destruct m; [|lia]. specialize (Left 0%nat ltac:(lia)). cbn in Left. lra.
Qed.

Example thm_3_second_job_met : can_be_met thm_3_second_job.
Proof. intros H. exact H. Qed.
