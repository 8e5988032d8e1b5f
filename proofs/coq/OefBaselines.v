(* OEF, section 2.4 and Table 1: Gavel and Gandiva_fair; and the worked examples of the paper. *)
From Coq Require Import Reals Lra Lia List PeanoNat Classical Permutation.
From Hetopt Require Import Sums Hypotheses Oef.
Import ListNotations.
Open Scope R_scope.

(* The rows of a feasible allocation of two types among three users. *)
Ltac shares_of_three F :=
  let X := fresh "X" in let Cap := fresh "Cap" in pose proof F as (X & Cap);
  pose proof (X 0%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (X 0%nat 1%nat ltac:(lia) ltac:(lia));
  pose proof (X 1%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (X 1%nat 1%nat ltac:(lia) ltac:(lia));
  pose proof (X 2%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (X 2%nat 1%nat ltac:(lia) ltac:(lia));
  pose proof (Cap 0%nat ltac:(lia)); pose proof (Cap 1%nat ltac:(lia)); clear X Cap.

(* -- Gavel -- *)

(* The largest ratio t of rates to those of the equal split, under further limits on the shares. *)
Definition ratio_level (limits : table -> Prop) (n k : nat) (m : nat -> R) (w x : table) (t : R) : Prop :=
  feasible n k m x /\ limits x /\ forall l, (l < n)%nat -> dot k (w l) m / INR n * t <= rate k w x l.
Definition largest_ratio (limits : table -> Prop) (n k : nat) (m : nat -> R) (w x : table) (t : R) : Prop :=
  ratio_level limits n k m w x t /\ forall y s, ratio_level limits n k m w y s -> s <= t.

(* Gavel's row in eq. (3): a user uses at most one GPU's time. *)
Definition one_gpu (n k : nat) (x : table) : Prop := forall l, (l < n)%nat -> sum k (x l) <= 1.
Definition gavel (n k : nat) : (nat -> R) -> table -> table -> R -> Prop := largest_ratio (one_gpu n k) n k.
Definition gavel_without_row : nat -> nat -> (nat -> R) -> table -> table -> R -> Prop := largest_ratio (fun _ => True).

Lemma largest_ratio_exists n k m w p (limits : table -> Prop) : (0 < n)%nat -> nonneg n k w ->
  (forall j, (j < k)%nat -> 0 <= m j) ->
  0 < dot k (w 0%nat) m -> (forall x t, Forall (keeps n k x t) p <-> limits x) -> limits (fun _ _ => 0) ->
  exists x t, largest_ratio limits n k m w x t.
Proof.
  intros N W M Some E Zero. assert (0 < INR n) by now apply lt_0_INR.
  destruct (largest_level n k m w p (fun _ => 0) (fun l => dot k (w l) m / INR n) (fun _ _ => 0) 0 0)
    as (x & t & (F & P & R) & Max); auto.
  - now apply Rdiv_lt_0_compat.
  - now apply nothing.
  - now apply E.
  - intros l _. rewrite rate_of_nothing. lra.
  - exists x, t. split.
    + split; [exact F|split; [now apply (E x t)|]]. intros l Hl. specialize (R l Hl). lra.
    + intros y s (Fy & Ty & Ry). apply (Max y); [exact Fy|now apply E|]. intros l Hl. specialize (Ry l Hl). lra.
Qed.

Lemma gavel_exists n k m w : (0 < n)%nat -> nonneg n k w -> (forall j, (j < k)%nat -> 0 <= m j) ->
  0 < dot k (w 0%nat) m -> exists x t, gavel n k m w x t.
Proof.
  intros N W M Some.
  apply (largest_ratio_exists n k m w (by_users n (fun l => Limit (of_user l (fun _ => 1)) 0 1))); auto.
  - intros x t. rewrite by_users_spec. split; intros A l Hl; specialize (A l Hl); revert A; unfold keeps;
    cbn [on_shares on_level at_most]; rewrite total_of_user by auto; unfold dot;
    rewrite (sum_ext k (fun j => 1 * x l j) (x l)) by (intros; ring); lra.
  - intros l _. rewrite sum_zero; auto. lra.
Qed.

Lemma gavel_without_row_exists n k m w : (0 < n)%nat -> nonneg n k w -> (forall j, (j < k)%nat -> 0 <= m j) ->
  0 < dot k (w 0%nat) m -> exists x t, gavel_without_row n k m w x t.
Proof.
  intros N W M Some. apply (largest_ratio_exists n k m w []); auto. intros x t. split; [auto|constructor].
Qed.

(* The equal split has all ratios 1. *)
Lemma largest_ratio_sharing (limits : table -> Prop) n k m w x t : (0 < n)%nat -> nonneg n k w ->
  (forall j, (j < k)%nat -> 0 <= m j) ->
  limits (split_by_weight n m equal) -> largest_ratio limits n k m w x t -> sharing_incentive n k m equal w x.
Proof.
  intros N W M Split ((F & _ & R) & Max). assert (N' : 0 < INR n) by now apply lt_0_INR.
  assert (One : 1 <= t).
  { apply (Max (split_by_weight n m equal)).
    split; [now apply split_feasible; auto; apply equal_weights|split; [exact Split|]].
    intros l _. unfold rate, split_by_weight. rewrite dot_parts, sum_equal. unfold equal. right. field. lra. }
  intros l Hl. specialize (R l Hl). rewrite sum_equal. unfold equal.
  assert (0 <= dot k (w l) m / INR n).
  { apply Rmult_le_pos; [apply dot_nonneg; auto|left; now apply Rinv_0_lt_compat]. }
  replace (dot k (w l) m * (1 / INR n)) with (dot k (w l) m / INR n) by (field; lra). nra.
Qed.

(* Claim oef/table-1-gavel-sharing: Gavel is sharing-incentive, with at most as many GPUs as users. *)
Theorem gavel_sharing n k m w x t : (0 < n)%nat -> nonneg n k w -> (forall j, (j < k)%nat -> 0 <= m j) ->
  sum k m <= INR n -> gavel n k m w x t -> sharing_incentive n k m equal w x.
Proof.
  intros N W M Few G. apply (largest_ratio_sharing (one_gpu n k) n k m w x t); auto.
  assert (N' : 0 < INR n) by now apply lt_0_INR.
  intros l _. unfold split_by_weight, parts. rewrite sum_scal, sum_equal. unfold equal.
  apply Rmult_le_reg_l with (INR n); [auto|].
  replace (INR n * (1 / INR n * sum k m)) with (sum k m) by (field; lra). lra.
Qed.

(* Claim oef/gavel-without-row: Gavel without its row, so that users may use several GPUs at a time, is
   sharing-incentive. *)
Theorem gavel_without_row_sharing n k m w x t : (0 < n)%nat -> nonneg n k w -> (forall j, (j < k)%nat -> 0 <= m j) ->
  gavel_without_row n k m w x t -> sharing_incentive n k m equal w x.
Proof. intros N W M. now apply (largest_ratio_sharing (fun _ => True)). Qed.

Example gavel_without_row_sharing_met : can_be_met gavel_without_row_sharing.
Proof.
  intros H. destruct (gavel_without_row_exists 2 2 one_each sample) as (x & t & G).
  - lia.
  - apply sample_nonneg; lia.
  - apply one_each_nonneg.
  - unfold sample. calculate.
  - exact (H 2%nat 2%nat _ _ _ _ ltac:(lia) (sample_nonneg 2 ltac:(lia)) (one_each_nonneg 2) G).
Qed.

Example gavel_sharing_met : can_be_met gavel_sharing.
Proof.
  intros H. destruct (gavel_exists 2 2 one_each sample) as (x & t & G).
  - lia.
  - apply sample_nonneg; lia.
  - apply one_each_nonneg.
  - unfold sample. calculate.
  - refine (H 2%nat 2%nat _ _ _ _ ltac:(lia) (sample_nonneg 2 ltac:(lia)) (one_each_nonneg 2) _ G). cbn.
    unfold one_each. lra.
Qed.

(* eqs. (1) and (3): three users; u1 reports 2.5 instead of 2. *)
Definition eq1 : table := listed [[1; 2]; [1; 3]; [1; 4]].
Definition eq1_lie25 : table := listed [[1; 5 / 2]; [1; 3]; [1; 4]].

Lemma eq1_positive : positive 3 2 eq1.
Proof. intros l j Hl Hj. each l; each j; unfold eq1; calculate. Qed.

Lemma listed_speedups a b c : 1 < a -> 1 < b -> 1 < c -> speedups 3 2 (listed [[1; a]; [1; b]; [1; c]]).
Proof.
  intros A B C l Hl. split; [|intros i j Hij; assert (i = 0%nat /\ j = 1%nat) as (-> & ->) by lia]; each l; calculate.
Qed.

Lemma eq1_lie25_positive : positive 3 2 eq1_lie25.
Proof. intros l j Hl Hj. each l; each j; unfold eq1_lie25; calculate. Qed.

Lemma INR_3 : INR 3 = 3.
Proof. cbn. lra. Qed.

Definition eq3 : table := listed [[10 / 11; 1 / 11]; [1 / 11; 5 / 11]; [0; 5 / 11]].
Definition eq3_lie : table := listed [[127 / 149; 22 / 149]; [22 / 149; 62 / 149]; [0; 65 / 149]].

(* x is an optimum of Gavel, with the ratio t0, and the only one. *)
Ltac gavel_allows_listed :=
  split; [split; [intros l j Hl Hj; each l; each j; calculate|intros j Hj; each j; calculate]|split;
  [intros l Hl; each l; calculate|intros l Hl; rewrite INR_3; each l; calculate]].
Ltac gavel_rows F T R :=
  shares_of_three F; pose proof (T 0%nat ltac:(lia)); pose proof (T 1%nat ltac:(lia)); pose proof (T 2%nat ltac:(lia));
  pose proof (R 0%nat ltac:(lia)); pose proof (R 1%nat ltac:(lia)); pose proof (R 2%nat ltac:(lia));
  rewrite INR_3 in *; clear T R F.

Lemma eq3_only x t : gavel 3 2 one_each eq1 x t -> same_shares 3 2 x eq3.
Proof.
  intros ((F & T & R) & Max). assert (L : 12 / 11 <= t) by (apply (Max eq3); unfold eq3, eq1; gavel_allows_listed).
  clear Max. gavel_rows F T R. unfold eq1 in *. intros l j Hl Hj. each l; each j; unfold eq3; calculate.
Qed.

Lemma eq3_lie_only x t : gavel 3 2 one_each eq1_lie25 x t -> same_shares 3 2 x eq3_lie.
Proof.
  intros ((F & T & R) & Max).
  assert (L : 156 / 149 <= t) by (apply (Max eq3_lie); unfold eq3_lie, eq1_lie25; gavel_allows_listed).
  clear Max. gavel_rows F T R. unfold eq1_lie25 in *. intros l j Hl Hj. each l; each j; unfold eq3_lie; calculate.
Qed.

Lemma same_rates n k w x y l : same_shares n k x y -> (l < n)%nat -> rate k w x l = rate k w y l.
Proof. intros S Hl. apply sum_ext; intros j Hj. now rewrite S. Qed.

Lemma gavel_eq1_exists : exists x t, gavel 3 2 one_each eq1 x t.
Proof.
  apply gavel_exists; [lia|apply positive_nonneg, eq1_positive|apply one_each_nonneg|unfold eq1; calculate].
Qed.

Lemma gavel_lie_exists : exists x t, gavel 3 2 one_each eq1_lie25 x t.
Proof.
  apply gavel_exists; [lia|apply positive_nonneg, eq1_lie25_positive|apply one_each_nonneg|unfold eq1_lie25; calculate].
Qed.

(* Table 1 says "no": in some cluster with at most as many GPUs as users every optimum of Gavel lacks a property. *)
Definition some_gavel (fails : forall (n k : nat) (m : nat -> R) (w x : table), Prop) : Prop :=
  exists n k m w, speedups n k w /\ sum k m <= INR n /\ (exists x t, gavel n k m w x t) /\
    forall x t, gavel n k m w x t -> fails n k m w x.

Lemma some_gavel_eq1 (fails : nat -> nat -> (nat -> R) -> table -> table -> Prop) :
  (forall x, same_shares 3 2 x eq3 -> feasible 3 2 one_each x -> fails 3%nat 2%nat one_each eq1 x) -> some_gavel fails.
Proof.
  intros H. exists 3%nat, 2%nat, one_each, eq1.
  split; [apply listed_speedups; lra|split; [rewrite INR_3; calculate|split]].
  - apply gavel_eq1_exists.
  - intros x t G. apply H; [now apply eq3_only with t|apply G].
Qed.

(* Claim oef/table-1-gavel-pareto: Gavel is not Pareto-efficient. *)
Theorem gavel_not_pareto : some_gavel (fun n k m w x => ~ pareto_efficient n k m w x).
Proof.
  apply some_gavel_eq1. intros x S F PE.
  specialize (PE (listed [[1; 1 / 22]; [0; 1 / 2]; [0; 5 / 11]])).
  assert (E : rate 2 eq1 (listed [[1; 1 / 22]; [0; 1 / 2]; [0; 5 / 11]]) 1%nat = rate 2 eq1 x 1%nat).
  { apply PE; [split| |lia].
    - intros l j Hl Hj. each l; each j; calculate.
    - intros j Hj. each j; calculate.
    - intros l Hl. rewrite (same_rates 3 2 eq1 x eq3 l S Hl). each l; unfold eq1, eq3; calculate. }
  rewrite (same_rates 3 2 eq1 x eq3 1 S ltac:(lia)) in E. unfold eq1, eq3 in E. calculate.
Qed.

Example gavel_not_pareto_met : can_be_met gavel_not_pareto.
Proof. auto. Qed.

(* Claim oef/table-1-gavel-envy: Gavel is not envy-free. *)
Theorem gavel_not_envy_free : some_gavel (fun n k m w x => ~ envy_free n k equal w x).
Proof.
  apply some_gavel_eq1. intros x S _ EF. specialize (EF 2%nat 1%nat ltac:(lia) ltac:(lia)).
  unfold rate, dot, equal in EF. cbn [sum] in EF. rewrite !S in EF by lia. unfold eq1, eq3 in EF. calculate.
Qed.

Example gavel_not_envy_free_met : can_be_met gavel_not_envy_free.
Proof. auto. Qed.

(* Claim oef/table-1-gavel-total: Gavel is not of optimal efficiency under the sharing incentive. *)
Theorem gavel_not_largest : some_gavel (fun n k m w x => ~ largest_sharing_total n k m equal w x).
Proof.
  apply some_gavel_eq1. intros x S _ (_ & _ & Max).
  specialize (Max (listed [[1; 0]; [0; 1 / 2]; [0; 1 / 2]])).
  assert (L : total 3 2 eq1 (listed [[1; 0]; [0; 1 / 2]; [0; 1 / 2]]) <= total 3 2 eq1 x).
  { apply Max; [split|].
    - intros l j Hl Hj. each l; each j; calculate.
    - intros j Hj. each j; calculate.
    - intros l Hl. each l; unfold eq1; calculate. }
  unfold total in L. rewrite (sum_ext 3 _ _ (fun l => same_rates 3 2 eq1 x eq3 l S)) in L. unfold eq1, eq3 in L.
  calculate.
Qed.

Example gavel_not_largest_met : can_be_met gavel_not_largest.
Proof. auto. Qed.

(* Claim oef/table-1-gavel-lies: Gavel is not strategy-proof against over-reports: with two types user 1 gains by one,
   whatever the optima before and after. *)
Theorem gavel_lies : exists n m w r, speedups n 2 w /\ speedups n 2 r /\ sum 2 m <= INR n /\ (0 < n)%nat /\
  (forall j, (j < 2)%nat -> w 0%nat j <= r 0%nat j) /\
  (forall l j, (l < n)%nat -> (j < 2)%nat -> l <> 0%nat -> r l j = w l j) /\
  (exists x t, gavel n 2 m w x t) /\ (exists y s, gavel n 2 m r y s) /\
  forall x t y s, gavel n 2 m w x t -> gavel n 2 m r y s -> rate 2 w x 0 < rate 2 w y 0.
Proof.
  exists 3%nat, one_each, eq1, eq1_lie25.
  split; [apply listed_speedups; lra|split; [apply listed_speedups; lra|split; [rewrite INR_3; calculate|]]].
  split; [lia|split; [|split; [|split; [|split]]]].
  - intros j Hj. each j; unfold eq1, eq1_lie25; calculate.
  - intros l j Hl Hj D. each l; reflexivity.
  - apply gavel_eq1_exists.
  - apply gavel_lie_exists.
  - intros x t y s X Y. rewrite (same_rates 3 2 eq1 x eq3), (same_rates 3 2 eq1 y eq3_lie); try lia.
    + unfold eq1, eq3, eq3_lie. calculate.
    + now apply eq3_lie_only with s.
    + now apply eq3_only with t.
Qed.

Example gavel_lies_met : can_be_met gavel_lies.
Proof. auto. Qed.

(* -- Gandiva_fair -- *)

Section Trading.
Variables n k : nat.
Variable w : table.

Section Turn.
Variables slow fast : nat.

(* The speedup of the fast type over the slow one. *)
Definition gain (l : nat) : R := w l fast / w l slow.

(* Seller s gives q GPUs of the fast type to buyer b for price q GPUs of the slow type. *)
Definition traded (x : table) (b s : nat) (price q : R) : table := fun l j =>
  let bought := q * ind fast j - price * q * ind slow j in
  x l j + (if Nat.eqb l b then bought else 0) - (if Nat.eqb l s then bought else 0).

(* The buyer has the largest speedup of those with slow GPUs, the seller the smallest of those with fast GPUs. *)
Definition buyer_and_seller (x : table) (b s : nat) : Prop := (b < n)%nat /\ (s < n)%nat /\
  0 < x b slow /\ 0 < x s fast /\ gain s < gain b /\
  (forall l, (l < n)%nat -> 0 < x l slow -> gain l <= gain b) /\
  forall l, (l < n)%nat -> 0 < x l fast -> gain s <= gain l.
(* The price is the second-largest speedup of those with slow GPUs; if it does not exceed the speedup of the seller, it
   is the mean of buyer and seller. *)
Definition second_price (x : table) (b s : nat) (price : R) : Prop :=
  let other o := (o < n)%nat /\ o <> b /\ 0 < x o slow in
  (exists o, other o /\ (forall l, other l -> gain l <= gain o) /\ gain s < gain o /\ price = gain o) \/
  (forall l, other l -> gain l <= gain s) /\ price = (gain b + gain s) / 2.
(* They trade until the seller has no fast GPUs or the buyer has no slow GPUs left. *)
Definition trade (x : table) (price : R) (y : table) : Prop := exists b s, buyer_and_seller x b s /\
  second_price x b s price /\ y = traded x b s price (Rmin (x s fast) (x b slow / price)).
Definition no_trade (x : table) : Prop := forall b s, (b < n)%nat -> (s < n)%nat ->
  0 < x b slow -> 0 < x s fast -> gain b <= gain s.

(* The turn of a pair of types: trades until none is left. *)
Inductive turn : table -> table -> Prop :=
  | turn_ends x : no_trade x -> turn x x
  | turn_goes_on x price y z : trade x price y -> turn y z -> turn x z.
End Turn.

(* One turn for every pair (slow, fast) of types, in this order. *)
Fixpoint turns (pairs : list (nat * nat)) (x y : table) : Prop :=
  match pairs with [] => x = y | (slow, fast) :: rest => exists z, turn slow fast x z /\ turns rest z y end.
Definition pairs_of_types (pairs : list (nat * nat)) : Prop :=
  forall slow fast, In (slow, fast) pairs -> (slow < k)%nat /\ (fast < k)%nat /\ slow <> fast.
(* All pairs of types, of which the later one is the faster one, once each and in any order. *)
Definition each_pair_once (pairs : list (nat * nat)) : Prop :=
  Permutation (filter (fun q => Nat.ltb (fst q) (snd q)) (list_prod (seq 0 k) (seq 0 k))) pairs.

(* If no two users have the same gain, the rule leaves no choice. *)
Lemma trade_unique slow fast x price y price' y' :
  (forall a b, (a < n)%nat -> (b < n)%nat -> gain slow fast a = gain slow fast b -> a = b) ->
  trade slow fast x price y -> trade slow fast x price' y' -> price = price' /\ y = y'.
Proof.
  intros Distinct (b & s & (Hb & Hs & Xb & Xs & L & Most & Least) & P & ->).
  intros (b' & s' & (Hb' & Hs' & Xb' & Xs' & L' & Most' & Least') & P' & ->).
  assert (b' = b) as -> by (apply Distinct; auto; apply Rle_antisym; auto).
  assert (s' = s) as -> by (apply Distinct; auto; apply Rle_antisym; auto).
  assert (price = price'); [|subst; auto].
  destruct P as [(o & O & Oo & G & ->)|(All & ->)], P' as [(o' & O' & Oo' & G' & ->)|(All' & ->)]; auto.
  - apply Rle_antisym; auto.
  - specialize (All' o O). lra.
  - specialize (All o' O'). lra.
Qed.

Lemma turn_unique slow fast x y z :
  (forall a b, (a < n)%nat -> (b < n)%nat -> gain slow fast a = gain slow fast b -> a = b) ->
  turn slow fast x y -> turn slow fast x z -> y = z.
Proof.
  intros Distinct T. assert (No : forall v price u, no_trade slow fast v -> ~ trade slow fast v price u).
  { intros v price u No (b & s & (Hb & Hs & Xb & Xs & L & _) & _). specialize (No b s Hb Hs Xb Xs). lra. }
  revert z; induction T as [x N|x price y v T _ IH]; intros z Z; inversion Z as [? N'|? price' y' ? T' Z']; subst; auto.
  - now destruct (No x price' y').
  - now destruct (No z price y).
  - apply IH. now destruct (trade_unique slow fast x price y price' y' Distinct T T') as (_ & ->).
Qed.

(* -- A trade between two types -- *)
Section Pair.
Variables slow fast : nat.
Hypothesis slow_type : (slow < k)%nat.
Hypothesis fast_type : (fast < k)%nat.
Hypothesis different : slow <> fast.
Hypothesis W : positive n k w.

Lemma gain_positive l : (l < n)%nat -> 0 < gain slow fast l.
Proof. intros Hl. apply Rdiv_lt_0_compat; auto. Qed.

Lemma price_between x b s price : buyer_and_seller slow fast x b s -> second_price slow fast x b s price ->
  0 < gain slow fast s <= price /\ price <= gain slow fast b.
Proof.
  intros (Hb & Hs & _ & _ & L & Most & _) P. pose proof (gain_positive s Hs).
  destruct P as [(o & (Ho & _ & So) & _ & Lo & ->)|(_ & ->)]; [|lra]. specialize (Most o Ho So). lra.
Qed.

(* What a trade changes: b pays with slow GPUs, s with fast ones, and at least one of them has none left. *)
Lemma trade_changes x price y : nonneg n k x -> trade slow fast x price y -> exists b s q,
  buyer_and_seller slow fast x b s /\ b <> s /\ 0 < q /\ 0 < gain slow fast s <= price /\ price <= gain slow fast b /\
  y = traded slow fast x b s price q /\
  (forall l, y l slow = x l slow - (if Nat.eqb l b then price * q else 0) + (if Nat.eqb l s then price * q else 0)) /\
  (forall l, y l fast = x l fast + (if Nat.eqb l b then q else 0) - (if Nat.eqb l s then q else 0)) /\
  0 <= y b slow /\ 0 <= y s fast /\ (y b slow = 0 \/ y s fast = 0).
Proof.
  intros X (b & s & BS & P & E). destruct (price_between x b s price BS P) as (L & H).
  pose proof BS as (Hb & Hs & Xb & Xs & Gs & _). assert (D : b <> s) by (intros ->; lra).
  set (q := Rmin (x s fast) (x b slow / price)) in *.
  assert (Q : 0 < q) by (apply Rmin_glb_lt; [auto|apply Rdiv_lt_0_compat; lra]).
  assert (Q1 : q <= x s fast) by apply Rmin_l.
  assert (Q2 : price * q <= x b slow).
  { apply Rle_trans with (price * (x b slow / price)); [apply Rmult_le_compat_l; [lra|apply Rmin_r]|].
    right. field. lra. }
  assert (Slow : forall l, y l slow
    = x l slow - (if Nat.eqb l b then price * q else 0) + (if Nat.eqb l s then price * q else 0)).
  { intros l. rewrite E. unfold traded. rewrite ind_same, ind_other by auto.
    destruct (Nat.eqb l b), (Nat.eqb l s); ring. }
  assert (Fast : forall l, y l fast = x l fast + (if Nat.eqb l b then q else 0) - (if Nat.eqb l s then q else 0)).
  { intros l. rewrite E. unfold traded. rewrite ind_same, ind_other by auto.
    destruct (Nat.eqb l b), (Nat.eqb l s); ring. }
  assert (Yb : y b slow = x b slow - price * q).
  { rewrite Slow, Nat.eqb_refl. destruct (Nat.eqb_spec b s); [congruence|ring]. }
  assert (Ys : y s fast = x s fast - q).
  { rewrite Fast, Nat.eqb_refl. destruct (Nat.eqb_spec s b); [congruence|ring]. }
  exists b, s, q. repeat split; try apply BS; auto; try lra.
  destruct (Rle_dec (x s fast) (x b slow / price)) as [Le|Le].
  - right. rewrite Ys. unfold q. rewrite Rmin_left by auto. ring.
  - left. rewrite Yb. unfold q. rewrite Rmin_right by lra. field. lra.
Qed.

Lemma trade_keeps x price y : nonneg n k x -> trade slow fast x price y ->
  nonneg n k y /\ (forall j, used n y j = used n x j) /\ forall l, (l < n)%nat -> rate k w x l <= rate k w y l.
Proof.
  intros X T. destruct (trade_changes x price y X T)
    as (b & s & q & BS & D & Q & L & H & E & Slow & Fast & Yb & Ys & _).
  pose proof BS as (Hb & Hs & _). split; [|split].
  - intros l j Hl Hj. destruct (Nat.eq_dec j slow) as [->|Ds]; [|destruct (Nat.eq_dec j fast) as [->|Df]].
    + destruct (Nat.eq_dec l b) as [->|Dl]; [auto|]. rewrite Slow. destruct (Nat.eqb_spec l b); [congruence|].
      specialize (X l slow Hl Hj). destruct Nat.eqb; [|lra]. assert (0 < price * q) by (apply Rmult_lt_0_compat; lra).
      lra.
    + destruct (Nat.eq_dec l s) as [->|Dl]; [auto|]. rewrite Fast. destruct (Nat.eqb_spec l s); [congruence|].
      specialize (X l fast Hl Hj). destruct Nat.eqb; lra.
    + rewrite E. unfold traded. rewrite !ind_other by auto. specialize (X l j Hl Hj).
      destruct (Nat.eqb l b), (Nat.eqb l s); lra.
  - intros j. rewrite E. unfold used, traded. rewrite sum_minus, sum_plus, !sum_at by auto. ring.
  - intros l Hl. set (v := fun j => q * ind fast j - price * q * ind slow j).
    assert (V : dot k (w l) v = q * (w l fast - price * w l slow)).
    { unfold v. rewrite dot_minus, !dot_scal, !dot_ind by auto. ring. }
    assert (R : rate k w y l = rate k w x l + (if Nat.eqb l b then dot k (w l) v else 0) -
      (if Nat.eqb l s then dot k (w l) v else 0)).
    { rewrite E. unfold rate, traded. fold v. rewrite dot_minus, dot_plus.
      assert (Z : dot k (w l) (fun _ => 0) = 0) by (apply sum_zero; intros; ring).
      destruct (Nat.eqb l b), (Nat.eqb l s); fold v; rewrite ?Z; reflexivity. }
    assert (G : gain slow fast l * w l slow = w l fast).
    { unfold gain. field. specialize (W l slow Hl slow_type). lra. }
    rewrite R, V. rewrite <- G. pose proof (W l slow Hl slow_type) as P.
    destruct (Nat.eqb_spec l b) as [Eb|_], (Nat.eqb_spec l s) as [Es|_]; try lra; subst l.
    + assert (0 <= q * ((gain slow fast b - price) * w b slow)); [|lra].
      apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; lra.
    + assert (0 <= q * ((price - gain slow fast s) * w s slow)); [|lra].
      apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; lra.
Qed.

Lemma turn_keeps x y : turn slow fast x y -> nonneg n k x ->
  nonneg n k y /\ (forall j, used n y j = used n x j) /\ (forall l, (l < n)%nat -> rate k w x l <= rate k w y l) /\
  no_trade slow fast y.
Proof.
  intros T; induction T as [x No|x price y z T _ IH]; intros X; [repeat split; auto; intros; lra|].
  destruct (trade_keeps x price y X T) as (Y & U & R). destruct (IH Y) as (Z & V & S & No). repeat split; auto.
  - intros j. now rewrite V.
  - intros l Hl. specialize (R l Hl). specialize (S l Hl). lra.
Qed.

(* -- The turn of a pair ends: each trade leaves one user fewer that can buy or sell -- *)

Lemma trade_exists x : ~ no_trade slow fast x -> exists price y, trade slow fast x price y.
Proof.
  intros Some.
  assert (Two : exists b s, (b < n)%nat /\ (s < n)%nat /\ 0 < x b slow /\ 0 < x s fast /\
    gain slow fast s < gain slow fast b).
  { apply NNPP. intros None. apply Some. intros b s Hb Hs B S. apply Rnot_lt_le. intros L. apply None.
    now exists b, s. }
  destruct Two as (b0 & s0 & Hb0 & Hs0 & B0 & S0 & L0).
  destruct (largest_index n (fun l => 0 < x l slow) (gain slow fast)) as (b & Hb & B & Most); [now exists b0|].
  destruct (least_index n (fun l => 0 < x l fast) (gain slow fast)) as (s & Hs & S & Least); [now exists s0|].
  assert (BS : buyer_and_seller slow fast x b s).
  { repeat split; auto.
    - specialize (Most b0 Hb0 B0). specialize (Least s0 Hs0 S0). lra. }
  enough (P : exists price, second_price slow fast x b s price).
  { destruct P as (price & P).
    exists price, (traded slow fast x b s price (Rmin (x s fast) (x b slow / price))), b, s. auto. }
  destruct (classic (exists o, (o < n)%nat /\ (o <> b /\ 0 < x o slow))) as [Other|None].
  - destruct (largest_index n _ (gain slow fast) Other) as (o & Ho & (D & So) & Second).
    destruct (Rlt_dec (gain slow fast s) (gain slow fast o)) as [L|L].
    + exists (gain slow fast o). left. exists o. repeat split; auto. intros l (Hl & Dl & Pl). auto.
    + exists ((gain slow fast b + gain slow fast s) / 2). right. split; [|reflexivity]. intros l (Hl & Dl & Pl).
      specialize (Second l Hl (conj Dl Pl)). lra.
  - exists ((gain slow fast b + gain slow fast s) / 2). right. split; [|reflexivity]. intros l (Hl & Dl & Pl).
    exfalso. apply None. now exists l.
Qed.

Definition can_trade (x : table) (b s : nat) : Prop := (b < n)%nat /\ (s < n)%nat /\
  0 < x b slow /\ 0 < x s fast /\ gain slow fast s < gain slow fast b.

Lemma turn_exists x : nonneg n k x -> exists y, turn slow fast x y.
Proof.
  assert (Ind : forall size buyers sellers x, (length buyers + length sellers <= size)%nat -> nonneg n k x ->
    (forall b s, can_trade x b s -> In b buyers /\ In s sellers) -> exists y, turn slow fast x y).
  { clear x. induction size as [|size IH]; intros buyers sellers x Size X Can.
    - exists x. apply turn_ends. intros b s Hb Hs B S. apply Rnot_lt_le. intros L.
      destruct (Can b s) as (I & _); [now repeat split|]. destruct buyers; [inversion I|cbn in Size; lia].
    - destruct (classic (no_trade slow fast x)) as [No|Some]; [exists x; now apply turn_ends|].
      destruct (trade_exists x Some) as (price & y & T).
      destruct (trade_changes x price y X T) as (b & s & q & BS & D & Q & L & H & _ & Slow & Fast & _ & _ & Gone).
      pose proof BS as (Hb & Hs & Xb & Xs & Gs & Most & Least). pose proof (trade_keeps x price y X T) as (Y & _ & _).
      (* users that can trade afterwards could trade before *)
      assert (Before : forall u v, can_trade y u v -> can_trade x u v).
      { intros u v (Hu & Hv & Yu & Yv & G).
        assert (PQ : 0 < price * q) by (apply Rmult_lt_0_compat; lra).
        assert (Xu : u = s \/ 0 < x u slow).
        { rewrite Slow in Yu. destruct (Nat.eqb_spec u s); [now left|right]. destruct (Nat.eqb u b); lra. }
        assert (Xv : v = b \/ 0 < x v fast).
        { rewrite Fast in Yv. destruct (Nat.eqb_spec v b); [now left|right]. destruct (Nat.eqb v s); lra. }
        destruct Xu as [->|Xu].
        - exfalso. destruct Xv as [->|Xv]; [lra|]. specialize (Least v Hv Xv). lra.
        - destruct Xv as [->|Xv]; [exfalso; specialize (Most u Hu Xu); lra|]. now repeat split. }
      assert (In_b : In b buyers /\ In s sellers) by (apply Can; repeat split; auto). destruct In_b as (In_b & In_s).
      assert (Rest : exists z, turn slow fast y z);
        [|destruct Rest as (z & Z); exists z; now apply turn_goes_on with price y].
      destruct Gone as [Gone|Gone].
      + apply (IH (remove Nat.eq_dec b buyers) sellers); auto.
        * pose proof (remove_length_lt Nat.eq_dec buyers b In_b). lia.
        * intros u v C. destruct (Can u v (Before u v C)) as (Iu & Iv). split; [|auto]. apply in_in_remove; auto.
          intros ->. destruct C as (_ & _ & C & _). lra.
      + apply (IH buyers (remove Nat.eq_dec s sellers)); auto.
        * pose proof (remove_length_lt Nat.eq_dec sellers s In_s). lia.
        * intros u v C. destruct (Can u v (Before u v C)) as (Iu & Iv). split; [auto|]. apply in_in_remove; auto.
          intros ->. destruct C as (_ & _ & _ & C & _). lra. }
  intros X. apply (Ind (n + n)%nat (seq 0 n) (seq 0 n)); auto.
  - now rewrite !seq_length.
  - intros b s (Hb & Hs & _). rewrite !in_seq. lia.
Qed.

End Pair.

Lemma turns_keep pairs x y : positive n k w -> pairs_of_types pairs -> turns pairs x y -> nonneg n k x ->
  nonneg n k y /\ (forall j, used n y j = used n x j) /\ forall l, (l < n)%nat -> rate k w x l <= rate k w y l.
Proof.
  intros W. revert x; induction pairs as [|(slow, fast) rest IH]; intros x P T X.
  - cbn in T. subst. repeat split; auto; intros; lra.
  - destruct T as (z & T & Rest). destruct (P slow fast (or_introl eq_refl)) as (A & B & D).
    destruct (turn_keeps slow fast A B D W x z T X) as (Z & U & R & _).
    destruct (IH z) as (Y & V & S); auto.
    { intros a b I. apply P. now right. }
    repeat split; auto; [intros j; now rewrite V|]. intros l Hl. specialize (R l Hl). specialize (S l Hl). lra.
Qed.

Lemma turns_exist pairs x : positive n k w -> pairs_of_types pairs -> nonneg n k x -> exists y, turns pairs x y.
Proof.
  intros W. revert x; induction pairs as [|(slow, fast) rest IH]; intros x P X; [now exists x|].
  destruct (P slow fast (or_introl eq_refl)) as (A & B & D).
  destruct (turn_exists slow fast A B D W x X) as (z & T).
  destruct (IH z) as (y & Y).
  - intros a b I. apply P. now right.
  - now apply (turn_keeps slow fast A B D W x z T X).
  - exists y, z. auto.
Qed.

End Trading.

(* Gandiva_fair begins with equal division, by weight. It has one turn for each pair of types (each_pair_once);
   what holds for all lists of pairs is stated for all. *)
Definition gandiva_fair (n k : nat) (m pi : nat -> R) (w : table) (pairs : list (nat * nat)) (x : table) : Prop :=
  pairs_of_types k pairs /\ turns n w pairs (split_by_weight n m pi) x.

Lemma gandiva_exists n k m w pi pairs : (0 < n)%nat -> weights n pi -> positive n k w ->
  (forall j, (j < k)%nat -> 0 <= m j) -> pairs_of_types k pairs -> exists x, gandiva_fair n k m pi w pairs x.
Proof.
  intros N Pi W M P. destruct (turns_exist n k w pairs (split_by_weight n m pi) W P) as (x & X).
  - now apply split_feasible.
  - now exists x.
Qed.

(* Claim oef/table-1-gandiva-sharing: Gandiva_fair is sharing-incentive. *)
Theorem gandiva_sharing n k m w pi pairs x : (0 < n)%nat -> weights n pi -> positive n k w ->
  (forall j, (j < k)%nat -> 0 <= m j) -> gandiva_fair n k m pi w pairs x -> sharing_incentive n k m pi w x.
Proof.
  intros N Pi W M (P & T) l Hl.
  destruct (turns_keep n k w pairs _ x W P T) as (_ & _ & R); [now apply split_feasible|].
  apply Rle_trans with (rate k w (split_by_weight n m pi) l); [now apply split_sharing|auto].
Qed.

Lemma one_pair : pairs_of_types 2 [(0, 1)]%nat.
Proof. intros a b [E|[]]. injection E; intros; subst. lia. Qed.

Example gandiva_sharing_met : can_be_met gandiva_sharing.
Proof.
  intros H. destruct (gandiva_exists 2 2 one_each sample one_two _ ltac:(lia) (one_two_weights 2)
    (sample_positive 2 ltac:(lia)) (one_each_nonneg 2) one_pair) as (x & X).
  refine (H _ _ _ _ _ _ _ _ (one_two_weights 2) (sample_positive 2 ltac:(lia)) (one_each_nonneg 2) X). lia.
Qed.

(* Claim oef/gandiva-two-types: Gandiva_fair is Pareto-efficient for two GPU types if all speedups are positive. *)
Theorem gandiva_two_types n m w pi slow fast x : (0 < n)%nat -> weights n pi -> positive n 2 w ->
  (forall j, (j < 2)%nat -> 0 <= m j) -> gandiva_fair n 2 m pi w [(slow, fast)] x -> pareto_efficient n 2 m w x.
Proof.
  intros N Pi W M (P & T). assert (F := split_feasible n 2 m pi N Pi M).
  destruct (P slow fast (or_introl eq_refl)) as (A & B & D).
  destruct T as (z & T & <-). destruct (turn_keeps n 2 w slow fast A B D W _ z T (proj1 F)) as (Z & U & _ & No).
  assert (Sold : forall j, (j < 2)%nat -> used n z j = m j).
  { intros j Hj. rewrite U. unfold used, split_by_weight, parts. rewrite sum_scal_r, all_parts by auto. ring. }
  apply two_types_efficient; auto.
  - split; [exact Z|]. intros j Hj. rewrite Sold by auto. lra.
  - intros l h Hl Hh Pl Ph.
    pose proof (W l 0%nat Hl ltac:(lia)). pose proof (W h 0%nat Hh ltac:(lia)).
    pose proof (W l 1%nat Hl ltac:(lia)). pose proof (W h 1%nat Hh ltac:(lia)).
    destruct slow as [|[|]]; [| |lia]; destruct fast as [|[|]]; try lia; unfold no_trade, gain in No.
    + specialize (No l h Hl Hh Pl Ph). apply Rmult_le_compat_r with (r := w l 0%nat * w h 0%nat) in No;
      [|apply Rmult_le_pos; lra]. field_simplify in No; lra.
    + specialize (No h l Hh Hl Ph Pl). apply Rmult_le_compat_r with (r := w l 1%nat * w h 1%nat) in No;
      [|apply Rmult_le_pos; lra]. field_simplify in No; lra.
Qed.

Example gandiva_two_types_met : can_be_met gandiva_two_types.
Proof.
  intros H. destruct (gandiva_exists 2 2 one_each sample one_two _ ltac:(lia) (one_two_weights 2)
    (sample_positive 2 ltac:(lia)) (one_each_nonneg 2) one_pair) as (x & X).
  refine (H _ _ _ _ _ _ _ _ (one_two_weights 2) (sample_positive 2 ltac:(lia)) (one_each_nonneg 2) X). lia.
Qed.

(* -- Gandiva_fair on eq. (1), where u1 reports the speedup a: 2 is the truth -- *)

Definition reports (a : R) : table := listed [[1; a]; [1; 3]; [1; 4]].

(* Two trades: u3 buys from u1 at the price 3, then u2 from u1 at the mean of their speedups. *)
Lemma gandiva_on_reports a : 2 <= a < 3 -> exists x0 x1 x2,
  (pairs_of_types 2 [(0, 1)]%nat /\ x0 = split_by_weight 3 one_each equal) /\
  trade 3 (reports a) 0 1 x0 3 x1 /\ trade 3 (reports a) 0 1 x1 ((3 + a) / 2) x2 /\ no_trade 3 (reports a) 0 1 x2 /\
  same_shares 3 2 x2 (listed [[1; 2 / 9 - 2 / (3 * (3 + a))]; [0; 1 / 3 + 2 / (3 * (3 + a))]; [0; 4 / 9]]).
Proof.
  intros A. set (q := 2 / (3 * (3 + a))).
  assert (Q : (3 + a) / 2 * q = 1 / 3) by (unfold q; field; lra).
  assert (Q1 : 0 < q <= 2 / 9).
  { split; [apply Rdiv_lt_0_compat; lra|]. apply Rmult_le_reg_l with ((3 + a) / 2); lra. }
  set (x0 := split_by_weight 3 one_each equal).
  assert (X0 : forall l j, x0 l j = 1 / 3).
  { intros l j. unfold x0, split_by_weight, parts, equal, one_each. cbn [sum]. field. }
  set (x1 := traded 0 1 x0 2 0 3 (1 / 9)).
  assert (X1 : same_shares 3 2 x1 (listed [[2 / 3; 2 / 9]; [1 / 3; 1 / 3]; [0; 4 / 9]])).
  { intros l j Hl Hj. unfold x1, traded, ind. rewrite X0. each l; each j; cbn; lra. }
  set (x2 := traded 0 1 x1 1 0 ((3 + a) / 2) q).
  assert (X2 : same_shares 3 2 x2 (listed [[1; 2 / 9 - q]; [0; 1 / 3 + q]; [0; 4 / 9]])).
  { intros l j Hl Hj. unfold x2, traded, ind. rewrite X1 by auto. each l; each j; cbn; lra. }
  assert (G0 : gain (reports a) 0 1 0 = a) by (unfold gain, reports; calculate; field).
  assert (G1 : gain (reports a) 0 1 1 = 3) by (unfold gain, reports; calculate; field).
  assert (G2 : gain (reports a) 0 1 2 = 4) by (unfold gain, reports; calculate; field).
  exists x0, x1, x2. split; [split; [apply one_pair|reflexivity]|]. split; [|split; [|split; [|exact X2]]].
  - exists 2%nat, 0%nat. split; [|split].
    + repeat split; rewrite ?X0, ?G0, ?G2; try lia; try lra; intros l Hl _; each l; rewrite ?G0, ?G1, ?G2; lra.
    + left. exists 1%nat. rewrite G0, G1. repeat split; rewrite ?X0; try lia; try lra. intros l (Hl & D & _).
      each l; rewrite ?G0, ?G1; lra.
    + unfold x1. f_equal. rewrite !X0, Rmin_right; lra.
  - exists 1%nat, 0%nat. split; [|split].
    + repeat split; rewrite ?X1, ?G0, ?G1 by lia; try lia; try (cbn; lra); intros l Hl P;
      rewrite X1 in P by lia; each l; rewrite ?G0, ?G1, ?G2; cbn in P; lra.
    + right. split; [|rewrite G0, G1; reflexivity]. intros l (Hl & D & P). rewrite X1 in P by lia.
      each l; cbn in P; rewrite ?G0; lra.
    + unfold x2. f_equal. rewrite !X1 by lia. cbn. rewrite Rmin_right; [unfold q; field; lra|].
      apply Rmult_le_reg_l with ((3 + a) / 2); [lra|]. field_simplify; lra.
  - intros b s Hb Hs P S. rewrite X2 in P, S by lia. each b; cbn in P; try lra. each s; rewrite ?G0, ?G1, ?G2; lra.
Qed.

(* All shares round to the printed ones, of two digits. *)
Definition prints (n k : nat) (x printed : table) : Prop := forall l j, (l < n)%nat -> (j < k)%nat ->
  Rabs (x l j - printed l j) < 1 / 200.

(* Two trades of Gandiva_fair among three users with these speedups, at these prices, and then none. *)
Definition two_trades (w : table) (price1 price2 : R) (x : table) : Prop := exists y,
  trade 3 w 0 1 (split_by_weight 3 one_each equal) price1 y /\ trade 3 w 0 1 y price2 x /\ no_trade 3 w 0 1 x.

Lemma two_trades_gandiva w price1 price2 x : two_trades w price1 price2 x ->
  gandiva_fair 3 2 one_each equal w [(0, 1)]%nat x.
Proof.
  intros (y & A & B & No). split; [apply one_pair|]. exists x. split; [|reflexivity].
  apply turn_goes_on with price1 y; [exact A|]. apply turn_goes_on with price2 x; [exact B|]. now apply turn_ends.
Qed.

Lemma two_trades_of_reports a : 2 <= a < 3 -> exists x, two_trades (reports a) 3 ((3 + a) / 2) x /\
  same_shares 3 2 x (listed [[1; 2 / 9 - 2 / (3 * (3 + a))]; [0; 1 / 3 + 2 / (3 * (3 + a))]; [0; 4 / 9]]).
Proof.
  intros A. destruct (gandiva_on_reports a A) as (x0 & x1 & x2 & (_ & ->) & T1 & T2 & No & S).
  exists x2. split; [|exact S]. now exists x1.
Qed.

(* The rule allows no other outcome. *)
Lemma reports_outcome a x : 2 <= a < 3 -> gandiva_fair 3 2 one_each equal (reports a) [(0, 1)]%nat x ->
  two_trades (reports a) 3 ((3 + a) / 2) x /\
  same_shares 3 2 x (listed [[1; 2 / 9 - 2 / (3 * (3 + a))]; [0; 1 / 3 + 2 / (3 * (3 + a))]; [0; 4 / 9]]).
Proof.
  intros A (_ & y & T & <-). destruct (two_trades_of_reports a A) as (z & Two & S).
  pose proof (two_trades_gandiva _ _ _ _ Two) as (_ & v & T' & E). cbn in E. subst v.
  replace y with z; [now split|]. apply (turn_unique 3 (reports a) 0 1 (split_by_weight 3 one_each equal)); auto.
  intros l h Hl Hh G. unfold gain, reports, listed in G. each l; each h; cbn in G; lra.
Qed.

Lemma one_pair_once : each_pair_once 2 [(0, 1)]%nat.
Proof. apply Permutation_refl. Qed.

Lemma only_pair pairs : each_pair_once 2 pairs -> pairs = [(0, 1)]%nat.
Proof. apply Permutation_length_1_inv. Qed.

Lemma eq1_outcome x : gandiva_fair 3 2 one_each equal eq1 [(0, 1)]%nat x -> two_trades eq1 3 (5 / 2) x /\
  same_shares 3 2 x (listed [[1; 4 / 45]; [0; 7 / 15]; [0; 4 / 9]]).
Proof.
  intros G. destruct (reports_outcome 2 x ltac:(lra) G) as (T & S). split.
  - replace (5 / 2) with ((3 + 2) / 2) by field. exact T.
  - intros l j Hl Hj. rewrite S by auto. each l; each j; calculate.
Qed.

Lemma eq1_lie_outcome x : gandiva_fair 3 2 one_each equal (reports (14 / 5)) [(0, 1)]%nat x ->
  two_trades (reports (14 / 5)) 3 (29 / 10) x /\
  same_shares 3 2 x (listed [[1; 28 / 261]; [0; 13 / 29]; [0; 4 / 9]]).
Proof.
  intros G. destruct (reports_outcome (14 / 5) x ltac:(lra) G) as (T & S). split.
  - replace (29 / 10) with ((3 + 14 / 5) / 2) by field. exact T.
  - intros l j Hl Hj. rewrite S by auto. each l; each j; calculate.
Qed.

Lemma eq1_gandiva : exists x, gandiva_fair 3 2 one_each equal eq1 [(0, 1)]%nat x.
Proof. destruct (two_trades_of_reports 2 ltac:(lra)) as (x & T & _). exists x. now apply two_trades_gandiva in T. Qed.

Lemma eq1_lie_gandiva : exists x, gandiva_fair 3 2 one_each equal (reports (14 / 5)) [(0, 1)]%nat x.
Proof.
  destruct (two_trades_of_reports (14 / 5) ltac:(lra)) as (x & T & _). exists x. now apply two_trades_gandiva in T.
Qed.

(* Claim oef/eq-1-shares: X of eq. (1) under Gandiva_fair, traded at the prices 3 and 2.5. *)
Theorem eq1_shares x : gandiva_fair 3 2 one_each equal eq1 [(0, 1)]%nat x ->
  two_trades eq1 3 (5 / 2) x /\ prints 3 2 x (listed [[1; 9 / 100]; [0; 47 / 100]; [0; 44 / 100]]).
Proof.
  intros G. destruct (eq1_outcome x G) as (T & S). split; [exact T|].
  intros l j Hl Hj. rewrite S by auto. apply Rabs_def1; each l; each j; calculate.
Qed.

Example eq1_shares_met : can_be_met eq1_shares.
Proof. intros H. destruct eq1_gandiva as (x & G). exact (H x G). Qed.

(* Claim oef/eq-1-lie-shares: after u1 reports 2.8, Gandiva_fair gives X^f, and the second price is 2.9, not 2.5. *)
Theorem eq1_lie_shares x y : gandiva_fair 3 2 one_each equal eq1 [(0, 1)]%nat x ->
  gandiva_fair 3 2 one_each equal (reports (14 / 5)) [(0, 1)]%nat y ->
  two_trades eq1 3 (5 / 2) x /\ two_trades (reports (14 / 5)) 3 (29 / 10) y /\
  prints 3 2 y (listed [[1; 11 / 100]; [0; 45 / 100]; [0; 44 / 100]]).
Proof.
  intros X Y. destruct (eq1_outcome x X) as (T & _). destruct (eq1_lie_outcome y Y) as (T' & S).
  split; [exact T|split; [exact T'|]].
  intros l j Hl Hj. rewrite S by auto. apply Rabs_def1; each l; each j; calculate.
Qed.

Example eq1_lie_shares_met : can_be_met eq1_lie_shares.
Proof. intros H. destruct eq1_gandiva as (x & X), eq1_lie_gandiva as (y & Y). exact (H x y X Y). Qed.

(* Table 1 says "no": in some cluster every outcome of Gandiva_fair, with one turn for each pair of types, lacks a
   property. *)
Definition some_gandiva (fails : forall (n k : nat) (m : nat -> R) (w x : table), Prop) : Prop :=
  exists n k m w, speedups n k w /\
    (exists pairs x, each_pair_once k pairs /\ gandiva_fair n k m equal w pairs x) /\
    forall pairs x, each_pair_once k pairs -> gandiva_fair n k m equal w pairs x -> fails n k m w x.

Lemma some_gandiva_eq1 (fails : nat -> nat -> (nat -> R) -> table -> table -> Prop) :
  (forall x, same_shares 3 2 x (listed [[1; 4 / 45]; [0; 7 / 15]; [0; 4 / 9]]) -> fails 3%nat 2%nat one_each eq1 x) ->
  some_gandiva fails.
Proof.
  intros H. exists 3%nat, 2%nat, one_each, eq1. split; [apply listed_speedups; lra|split].
  - destruct eq1_gandiva as (x & G). exists [(0, 1)]%nat, x. split; [apply one_pair_once|exact G].
  - intros pairs x P G. apply only_pair in P as ->. now apply H, eq1_outcome.
Qed.

(* Claim oef/table-1-gandiva-envy: Gandiva_fair is not envy-free. *)
Theorem gandiva_not_envy_free : some_gandiva (fun n k m w x => ~ envy_free n k equal w x).
Proof.
  apply some_gandiva_eq1. intros x S EF. specialize (EF 2%nat 1%nat ltac:(lia) ltac:(lia)).
  unfold rate, dot, equal in EF. cbn [sum] in EF. rewrite !S in EF by lia. unfold eq1 in EF. calculate.
Qed.

Example gandiva_not_envy_free_met : can_be_met gandiva_not_envy_free.
Proof. auto. Qed.

(* Claim oef/table-1-gandiva-lies: Gandiva_fair is not strategy-proof against over-reports: with two types, so one pair
   of types, user 1 gains by one. *)
Theorem gandiva_lies : exists n m w r, speedups n 2 w /\ speedups n 2 r /\ (0 < n)%nat /\
  (forall j, (j < 2)%nat -> w 0%nat j <= r 0%nat j) /\
  (forall l j, (l < n)%nat -> (j < 2)%nat -> l <> 0%nat -> r l j = w l j) /\
  (exists x, gandiva_fair n 2 m equal w [(0, 1)]%nat x) /\ (exists y, gandiva_fair n 2 m equal r [(0, 1)]%nat y) /\
  forall x y, gandiva_fair n 2 m equal w [(0, 1)]%nat x -> gandiva_fair n 2 m equal r [(0, 1)]%nat y ->
    rate 2 w x 0 < rate 2 w y 0.
Proof.
  exists 3%nat, one_each, eq1, (reports (14 / 5)).
  split; [apply listed_speedups; lra|split; [apply listed_speedups; lra|]].
  split; [lia|split; [|split; [|split; [|split]]]].
  - intros j Hj. each j; unfold eq1, reports; calculate.
  - intros l j Hl Hj D. each l; reflexivity.
  - apply eq1_gandiva.
  - apply eq1_lie_gandiva.
  - intros x y X Y. destruct (eq1_outcome x X) as (_ & S), (eq1_lie_outcome y Y) as (_ & S').
    rewrite (same_rates 3 2 eq1 x _ 0 S), (same_rates 3 2 eq1 y _ 0 S') by lia. unfold eq1. calculate.
Qed.

Example gandiva_lies_met : can_be_met gandiva_lies.
Proof. auto. Qed.

(* eq. (2): the largest total that is envy-free, and that has the sharing incentive. *)
Definition eq2 : table := listed [[1; 0]; [0; 1 / 2]; [0; 1 / 2]].

Lemma eq2_feasible : feasible 3 2 one_each eq2.
Proof. split; [intros l j Hl Hj; each l; each j|intros j Hj; each j]; unfold eq2; calculate. Qed.

(* Claim oef/table-1-gandiva-total: Gandiva_fair is not of optimal efficiency under the sharing incentive. *)
Theorem gandiva_not_largest : some_gandiva (fun n k m w x => ~ largest_sharing_total n k m equal w x).
Proof.
  apply some_gandiva_eq1. intros x S (_ & _ & Max).
  assert (L : total 3 2 eq1 eq2 <= total 3 2 eq1 x).
  { apply Max; [apply eq2_feasible|]. intros l Hl. each l; unfold eq1, eq2; calculate. }
  rewrite (total_of_same 3 2 eq1 x _ S) in L. unfold eq1, eq2 in L. calculate.
Qed.

Example gandiva_not_largest_met : can_be_met gandiva_not_largest.
Proof. auto. Qed.

(* Claim oef/eq-1-envy: in eq. (1), Gandiva_fair, and in eq. (3), Gavel, u3 prefers the GPUs of u2. *)
Theorem eq1_envy x y t : gandiva_fair 3 2 one_each equal eq1 [(0, 1)]%nat x -> gavel 3 2 one_each eq1 y t ->
  rate 2 eq1 x 2 < dot 2 (eq1 2%nat) (x 1%nat) /\ rate 2 eq1 y 2 < dot 2 (eq1 2%nat) (y 1%nat).
Proof.
  intros X Y. destruct (eq1_outcome x X) as (_ & S). pose proof (eq3_only y t Y) as S'.
  unfold rate, dot. cbn [sum]. rewrite !S, !S' by lia. unfold eq1, eq3. split; calculate.
Qed.

Example eq1_envy_met : can_be_met eq1_envy.
Proof. intros H. destruct eq1_gandiva as (x & X), gavel_eq1_exists as (y & t & Y). exact (H x y t X Y). Qed.

(* -- The other worked examples -- *)

(* Claim oef/eq-3-shares: X of eq. (3) under Gavel. *)
Theorem eq3_shares x t : gavel 3 2 one_each eq1 x t ->
  prints 3 2 x (listed [[91 / 100; 9 / 100]; [9 / 100; 45 / 100]; [0; 45 / 100]]).
Proof.
  intros G l j Hl Hj. rewrite (eq3_only x t G) by auto. apply Rabs_def1; each l; each j; unfold eq3; calculate.
Qed.

Example eq3_shares_met : can_be_met eq3_shares.
Proof. intros H. destruct gavel_eq1_exists as (x & t & G). exact (H x t G). Qed.

(* Claim oef/eq-3-lie: after u1 reports 2.5 to Gavel it has (0.85, 0.15) and gains. *)
Theorem eq3_lie_shares x t y s : gavel 3 2 one_each eq1 x t -> gavel 3 2 one_each eq1_lie25 y s ->
  Rabs (y 0%nat 0%nat - 85 / 100) < 1 / 200 /\ Rabs (y 0%nat 1%nat - 15 / 100) < 1 / 200 /\
    rate 2 eq1 x 0 < rate 2 eq1 y 0.
Proof.
  intros X Y. pose proof (eq3_only x t X) as Sx. pose proof (eq3_lie_only y s Y) as Sy.
  rewrite (same_rates 3 2 eq1 x _ 0 Sx), (same_rates 3 2 eq1 y _ 0 Sy), !Sy by lia. unfold eq1, eq3, eq3_lie.
  split; [|split]; [apply Rabs_def1|apply Rabs_def1|]; calculate.
Qed.

Example eq3_lie_shares_met : can_be_met eq3_lie_shares.
Proof.
  intros H. destruct gavel_eq1_exists as (x & t & X), gavel_lie_exists as (y & s & Y). exact (H x t y s X Y).
Qed.

(* Claim oef/eq-3-trade-corrected: after Gavel, the trade to x'_1 = (1, 1/22), x'_2 = (0, 1/2) raises u2 and hurts no
   user. It leaves Gavel's row: u1 then has 23/22 GPUs. *)
Theorem eq3_trade x t : gavel 3 2 one_each eq1 x t ->
  let y := fun l => match l with O => listed [[1; 1 / 22]] 0%nat | 1%nat => listed [[0; 1 / 2]] 0%nat | _ => x l end in
  feasible 3 2 one_each y /\ rate 2 eq1 x 1 < rate 2 eq1 y 1 /\
  (forall l, (l < 3)%nat -> rate 2 eq1 x l <= rate 2 eq1 y l) /\ sum 2 (y 0%nat) = 23 / 22 /\ ~ one_gpu 3 2 y.
Proof.
  intros G y. pose proof (eq3_only x t G) as S.
  assert (Y : same_shares 3 2 y (listed [[1; 1 / 22]; [0; 1 / 2]; [0; 5 / 11]])).
  { intros l j Hl Hj. each l; [reflexivity|reflexivity|]. cbn [y]. rewrite S by lia. reflexivity. }
  assert (Row : sum 2 (y 0%nat) = 23 / 22) by (cbn [y]; calculate).
  split; [split|split; [|split; [|split; [exact Row|]]]].
  - intros l j Hl Hj. rewrite Y by auto. each l; each j; calculate.
  - intros j Hj. unfold used.
    rewrite (sum_ext 3 _ (fun l => listed [[1; 1 / 22]; [0; 1 / 2]; [0; 5 / 11]] l j)) by (intros; now apply Y).
    each j; calculate.
  - rewrite (same_rates 3 2 eq1 x _ 1 S), (same_rates 3 2 eq1 y _ 1 Y) by lia. unfold eq1, eq3. calculate.
  - intros l Hl. rewrite (same_rates 3 2 eq1 x _ l S Hl), (same_rates 3 2 eq1 y _ l Y Hl).
    each l; unfold eq1, eq3; calculate.
  - intros One. specialize (One 0%nat ltac:(lia)). lra.
Qed.

Example eq3_trade_met : can_be_met eq3_trade.
Proof. intros H. destruct gavel_eq1_exists as (x & t & G). exact (H x t G). Qed.

Ltac envy_of_three E :=
  pose proof (E 0%nat 1%nat ltac:(lia) ltac:(lia)); pose proof (E 0%nat 2%nat ltac:(lia) ltac:(lia));
  pose proof (E 1%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (E 1%nat 2%nat ltac:(lia) ltac:(lia));
  pose proof (E 2%nat 0%nat ltac:(lia) ltac:(lia)); pose proof (E 2%nat 1%nat ltac:(lia) ltac:(lia)); clear E.

(* Claim oef/eq-2: X^* has E^* = (1, 1.5, 2); it is envy-free with the largest total, 4.5, and sharing-incentive; it is
   the only such allocation. *)
Theorem eq2_optimum : cooperative 3 2 one_each equal eq1 eq2 /\ sharing_incentive 3 2 one_each equal eq1 eq2 /\
  rate 2 eq1 eq2 0 = 1 /\ rate 2 eq1 eq2 1 = 3 / 2 /\ rate 2 eq1 eq2 2 = 2 /\ total 3 2 eq1 eq2 = 9 / 2 /\
  forall x, cooperative 3 2 one_each equal eq1 x -> same_shares 3 2 x eq2.
Proof.
  assert (EF : envy_free 3 2 equal eq1 eq2).
  { intros l i Hl Hi. each l; each i; unfold eq1, eq2; calculate. }
  assert (SI : sharing_incentive 3 2 one_each equal eq1 eq2) by (intros l Hl; each l; unfold eq1, eq2; calculate).
  split; [|split; [exact SI|clear SI; unfold eq1, eq2; split; [|split; [|split; [|split]]];
    [calculate|calculate|calculate|calculate|]]].
  - split; [apply eq2_feasible|split; [exact EF|]]. intros y F E. shares_of_three F. envy_of_three E.
    unfold eq1, eq2 in *. calculate.
  - fold eq1 eq2. intros x (F & E & Max). specialize (Max eq2 eq2_feasible EF). shares_of_three F. envy_of_three E.
    unfold eq1, eq2 in *. intros l j Hl Hj. clear EF F. each l; each j; calculate.
Qed.

Example eq2_optimum_met : can_be_met eq2_optimum.
Proof. auto. Qed.

(* Claim oef/eq-5: X has the largest total; u2 is below its third of the cluster, u1 and u2 envy u3. *)
Theorem eq5_optimum : let x := listed [[1; 0]; [0; 0]; [0; 1]] in
  largest_total 3 2 one_each eq1 x /\ rate 2 eq1 x 1 < dot 2 (eq1 1%nat) one_each / 3 /\
  rate 2 eq1 x 0 < dot 2 (eq1 0%nat) (x 2%nat) /\ rate 2 eq1 x 1 < dot 2 (eq1 1%nat) (x 2%nat).
Proof.
  intros x. unfold x, eq1. split; [split|split; [calculate|split; calculate]].
  - split; [intros l j Hl Hj; each l; each j; calculate|intros j Hj; each j; calculate].
  - intros y F. shares_of_three F. calculate.
Qed.

Example eq5_optimum_met : can_be_met eq5_optimum.
Proof. auto. Qed.

(* Two users: x is the only optimum of cooperative OEF. *)
Definition only_optimum (w x : table) : Prop := cooperative 2 2 one_each equal w x /\
  forall y, cooperative 2 2 one_each equal w y -> same_shares 2 2 y x.

Ltac find_only_optimum :=
  match goal with |- only_optimum ?w ?x =>
    let F := fresh "F" in let E := fresh "E" in let y := fresh "other" in
    assert (F : feasible 2 2 one_each x) by
      (split; [intros l j Hl Hj; each l; each j; calculate|intros j Hj; each j; calculate]);
    assert (E : envy_free 2 2 equal w x) by (intros l i Hl Hi; each l; each i; calculate);
    split; [split; [exact F|split; [exact E|]]|];
    [intros y Fy Ey; shares_of_two Fy; pose proof (Ey 0%nat 1%nat ltac:(lia) ltac:(lia)); clear E; calculate
    |intros y (Fy & Ey & Max); specialize (Max x F E); shares_of_two Fy;
      pose proof (Ey 0%nat 1%nat ltac:(lia) ltac:(lia));
     clear E F Fy Ey; calculate; intros l j Hl Hj; each l; each j; calculate]
  end.

(* Claim oef/eq-6: X is envy-free with the largest total, 5.25; it is the only optimum. *)
Theorem eq6_optimum : let w := listed [[1; 2]; [1; 5]] in let x := listed [[1; 25 / 100]; [0; 75 / 100]] in
  only_optimum w x /\ total 2 2 w x = 525 / 100.
Proof. intros w x. unfold w, x. split; [find_only_optimum|calculate]. Qed.

Example eq6_optimum_met : can_be_met eq6_optimum.
Proof. auto. Qed.

(* Claim oef/eq-6-lie: after u1 reports 4, X^l is the only optimum; u1 has 1.75, 16.7 % more, and the total falls to
   4.875 from 5.25. *)
Theorem eq6_lie : let w := listed [[1; 2]; [1; 5]] in let r := listed [[1; 4]; [1; 5]] in
  let x := listed [[1; 25 / 100]; [0; 75 / 100]] in let y := listed [[1; 375 / 1000]; [0; 625 / 1000]] in
  only_optimum w x /\ only_optimum r y /\ rate 2 w y 0 = 175 / 100 /\
  Rabs (rate 2 w y 0 / rate 2 w x 0 - 1 - 167 / 1000) < 5 / 10000 /\
  total 2 2 w y = 4875 / 1000 /\ total 2 2 w y < total 2 2 w x.
Proof.
  intros w r x y. unfold w, r, x, y. split; [apply eq6_optimum|split; [find_only_optimum|]].
  split; [calculate|split; [|split; calculate]]. apply Rabs_def1; calculate.
Qed.

Example eq6_lie_met : can_be_met eq6_lie.
Proof. auto. Qed.

(* Claim oef/eq-6-even-split: under X^f, the even split, u1 has 1.5 and u2 has 3, neither more than with X. *)
Theorem eq6_even_split : let w := listed [[1; 2]; [1; 5]] in let split := listed [[1 / 2; 1 / 2]; [1 / 2; 1 / 2]] in
  let x := listed [[1; 25 / 100]; [0; 75 / 100]] in
  rate 2 w split 0 = 3 / 2 /\ rate 2 w split 1 = 3 /\ forall l, (l < 2)%nat -> rate 2 w split l <= rate 2 w x l.
Proof.
  intros w split x. unfold w, split, x. split; [calculate|split; [calculate|]]. intros l Hl. each l; calculate.
Qed.

Example eq6_even_split_met : can_be_met eq6_even_split.
Proof. auto. Qed.

(* Claim oef/fig-2: X, and X after u1 reports 3, under envy-freeness and the largest total; both are the only optima. *)
Theorem fig2_optima : exists y, only_optimum fig2 (listed [[1; 25 / 100]; [0; 75 / 100]]) /\ only_optimum fig2_lie y /\
  prints 2 2 y (listed [[1; 33 / 100]; [0; 67 / 100]]).
Proof.
  exists (listed [[1; 1 / 3]; [0; 2 / 3]]). unfold fig2, fig2_lie.
  split; [find_only_optimum|split; [find_only_optimum|]].
  intros l j Hl Hj. apply Rabs_def1; each l; each j; calculate.
Qed.

Example fig2_optima_met : can_be_met fig2_optima.
Proof. auto. Qed.

(* Claim oef/weighted: X of non-cooperative OEF with u2 of weight 2, as two copies; it is the only optimum, and 2/3 of
   the second GPU are those of u2. *)
Theorem weighted_optimum : let w := listed [[1; 2]; [1; 5]; [1; 5]] in
  let x := listed [[1; 1 / 3]; [0; 1 / 3]; [0; 1 / 3]] in
  noncooperative 3 2 one_each equal w x (5 / 3) /\ x 1%nat 1%nat + x 2%nat 1%nat = 2 / 3 /\
  forall y t, noncooperative 3 2 one_each equal w y t -> same_shares 3 2 y x.
Proof.
  intros w x. unfold w, x. assert (L : level 3 2 one_each equal w x (5 / 3)).
  { unfold w, x. split; [split; [intros l j Hl Hj; each l; each j; calculate|intros j Hj; each j; calculate]|].
    intros l Hl. each l; calculate. }
  split; [|split; [calculate|]].
  - split; [exact L|]. intros y s (F & R). shares_of_three F. clear L.
    pose proof (R 0%nat ltac:(lia)). pose proof (R 1%nat ltac:(lia)). pose proof (R 2%nat ltac:(lia)). calculate.
  - intros y t ((F & R) & Max). specialize (Max x _ L). shares_of_three F. clear L.
    pose proof (R 0%nat ltac:(lia)). pose proof (R 1%nat ltac:(lia)). pose proof (R 2%nat ltac:(lia)). clear R F.
    calculate.
    intros l j Hl Hj. each l; each j; calculate.
Qed.

Example weighted_optimum_met : can_be_met weighted_optimum.
Proof. auto. Qed.

(* Claim oef/job-types: X of non-cooperative OEF with two job types of u1 and two copies of u2. *)
Theorem job_types_optimum : exists x t,
  noncooperative 4 2 one_each equal (listed [[1; 2]; [1; 3]; [1; 5]; [1; 5]]) x t /\
  prints 4 2 x (listed [[1; 11 / 100]; [0; 41 / 100]; [0; 24 / 100]; [0; 24 / 100]]).
Proof.
  exists (listed [[1; 4 / 37]; [0; 15 / 37]; [0; 9 / 37]; [0; 9 / 37]]), (45 / 37). split; [split; [split; [split|]|]|].
  - intros l j Hl Hj. destruct l as [|[|[|[|]]]]; each j; calculate; lia.
  - intros j Hj. each j; calculate.
  - intros l Hl. destruct l as [|[|[|[|]]]]; calculate; lia.
  - intros y s ((Y & Cap) & R).
    pose proof (R 0%nat ltac:(lia)). pose proof (R 1%nat ltac:(lia)). pose proof (R 2%nat ltac:(lia)).
    pose proof (R 3%nat ltac:(lia)).
    pose proof (Cap 0%nat ltac:(lia)). pose proof (Cap 1%nat ltac:(lia)). clear R Cap.
    pose proof (Y 0%nat 0%nat ltac:(lia) ltac:(lia)). pose proof (Y 1%nat 0%nat ltac:(lia) ltac:(lia)).
    pose proof (Y 2%nat 0%nat ltac:(lia) ltac:(lia)). pose proof (Y 3%nat 0%nat ltac:(lia) ltac:(lia)).
    pose proof (Y 0%nat 1%nat ltac:(lia) ltac:(lia)). calculate.
  - intros l j Hl Hj. apply Rabs_def1; destruct l as [|[|[|[|]]]]; each j; calculate; lia.
Qed.

Example job_types_optimum_met : can_be_met job_types_optimum.
Proof. auto. Qed.

(* Claim oef/fig-1: cooperative OEF gives User-2 1.18 times as much as max-min, the equal split, which loses 9.1 % of
   the total, for some speedups that round to 1.39 (VGG) and 2.15 (LSTM). *)
Theorem fig1_losses : exists a b, Rabs (a - 139 / 100) <= 1 / 200 /\ Rabs (b - 215 / 100) <= 1 / 200 /\
  let w := listed [[1; a]; [1; b]] in let split := split_by_weight 2 one_each equal in
  exists x, only_optimum w x /\ Rabs (rate 2 w x 1 / rate 2 w split 1 - 118 / 100) < 1 / 200 /\
    Rabs (1 - total 2 2 w split / total 2 2 w x - 91 / 1000) < 1 / 2000.
Proof.
  exists (277 / 200), (431 / 200). split; [apply Rabs_le; lra|split; [apply Rabs_le; lra|]]. intros w split.
  exists (listed [[1; 1 / 2 - 100 / 277]; [0; 1 / 2 + 100 / 277]]). unfold w. split; [find_only_optimum|].
  assert (S : same_shares 2 2 split (listed [[1 / 2; 1 / 2]; [1 / 2; 1 / 2]])).
  { intros l j Hl Hj. unfold split, split_by_weight, parts. each l; each j; calculate. }
  rewrite (same_rates 2 2 _ split _ 1 S), (total_of_same 2 2 _ split _ S) by lia.
  split; apply Rabs_def1; calculate.
Qed.

Example fig1_losses_met : can_be_met fig1_losses.
Proof. auto. Qed.
