(* Finite sums and dot products, the largest of finitely many numbers, and finite searches. *)
From Coq Require Import Reals ZArith Lra Lia List PeanoNat Classical.
Import ListNotations.
Open Scope R_scope.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S n => sum n f + f n end.

Definition dot (k : nat) (w x : nat -> R) : R := sum k (fun j => w j * x j).

Lemma sum_le n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  induction n; intros H; cbn; [lra|].
  assert (f n <= g n) by (apply H; lia).
  assert (sum n f <= sum n g) by (apply IHn; intros; apply H; lia). lra.
Qed.

Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. intros H; apply Rle_antisym; apply sum_le; intros i Hi; rewrite (H i Hi); lra. Qed.

Lemma sum_lt n f g a : (forall i, (i < n)%nat -> f i <= g i) -> (a < n)%nat -> f a < g a -> sum n f < sum n g.
Proof.
  induction n; intros H Ha L; cbn; [lia|].
  assert (f n <= g n) by (apply H; lia).
  assert (sum n f <= sum n g) by (apply sum_le; intros; apply H; lia).
  destruct (Nat.eq_dec a n) as [->|N]; [lra|].
  assert (sum n f < sum n g) by (apply IHn; [intros; apply H| |]; auto; lia). lra.
Qed.

Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n; cbn; lra. Qed.

Lemma sum_minus n f g : sum n (fun i => f i - g i) = sum n f - sum n g.
Proof. induction n; cbn; lra. Qed.

Lemma sum_scal n c f : sum n (fun i => c * f i) = c * sum n f.
Proof. induction n; cbn; [ring|rewrite IHn; ring]. Qed.

Lemma sum_const n c : sum n (fun _ => c) = INR n * c.
Proof. induction n; [cbn; ring|cbn [sum]; rewrite S_INR, IHn; ring]. Qed.

Lemma sum_zero n f : (forall i, (i < n)%nat -> f i = 0) -> sum n f = 0.
Proof. intros H; rewrite (sum_ext n f (fun _ => 0) H), sum_const; ring. Qed.

Lemma sum_nonneg n f : (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof. intros H. rewrite <- (sum_zero n (fun _ => 0)) by auto. apply sum_le, H. Qed.

Lemma sum_swap n k (f : nat -> nat -> R) :
  sum n (fun i => sum k (fun j => f i j)) = sum k (fun j => sum n (fun i => f i j)).
Proof.
  induction n; cbn; [now rewrite (sum_zero k (fun _ => 0))|]. now rewrite IHn, <- sum_plus.
Qed.

Lemma sum_term n f a : (forall i, (i < n)%nat -> 0 <= f i) -> (a < n)%nat -> f a <= sum n f.
Proof.
  induction n; intros H Ha; cbn; [lia|].
  assert (0 <= f n) by (apply H; lia).
  assert (0 <= sum n f) by (apply sum_nonneg; intros; apply H; lia).
  destruct (Nat.eq_dec a n) as [->|N]; [lra|].
  assert (f a <= sum n f) by (apply IHn; [intros; apply H|]; lia). lra.
Qed.

(* exactly one index differs *)
Lemma sum_at n a c : (a < n)%nat -> sum n (fun i => if Nat.eqb i a then c else 0) = c.
Proof.
  induction n; intros Ha; cbn; [lia|]. destruct (Nat.eqb_spec n a) as [->|N].
  - rewrite sum_zero; [ring|]. intros i Hi; destruct (Nat.eqb_spec i a); [lia|reflexivity].
  - rewrite IHn by lia; ring.
Qed.

Lemma sum_pos_term n f : 0 < sum n f -> exists a, (a < n)%nat /\ 0 < f a.
Proof.
  induction n; cbn; intros H; [lra|]. destruct (Rlt_dec 0 (f n)) as [L|L]; [exists n; auto|].
  destruct IHn as (a & Ha & P); [lra|exists a; auto].
Qed.

Lemma dot_le k v w x : (forall j, (j < k)%nat -> v j <= w j) -> (forall j, (j < k)%nat -> 0 <= x j) ->
  dot k v x <= dot k w x.
Proof. intros H X; apply sum_le; intros j Hj; specialize (H j Hj); specialize (X j Hj); nra. Qed.

Lemma dot_le_r k w x y : (forall j, (j < k)%nat -> 0 <= w j) -> (forall j, (j < k)%nat -> x j <= y j) ->
  dot k w x <= dot k w y.
Proof. intros H X; apply sum_le; intros j Hj; specialize (H j Hj); specialize (X j Hj); nra. Qed.

Lemma dot_nonneg k w x : (forall j, (j < k)%nat -> 0 <= w j) -> (forall j, (j < k)%nat -> 0 <= x j) -> 0 <= dot k w x.
Proof. intros W X; apply sum_nonneg; intros; apply Rmult_le_pos; auto. Qed.

Lemma dot_plus k w x y : dot k w (fun j => x j + y j) = dot k w x + dot k w y.
Proof. unfold dot; rewrite <- sum_plus; apply sum_ext; intros; ring. Qed.

Lemma dot_scal k c w x : dot k w (fun j => c * x j) = c * dot k w x.
Proof. unfold dot; rewrite <- sum_scal; apply sum_ext; intros; ring. Qed.

Lemma dot_scal_l k c w x : dot k (fun j => c * w j) x = c * dot k w x.
Proof. unfold dot; rewrite <- sum_scal; apply sum_ext; intros; ring. Qed.

Lemma dot_sum n k w (x : nat -> nat -> R) : dot k w (fun j => sum n (fun i => x i j)) = sum n (fun i => dot k w (x i)).
Proof.
  unfold dot; rewrite sum_swap; apply sum_ext; intros. now rewrite <- sum_scal.
Qed.

(* finitely many numbers above t stay above some t' > t *)
Lemma room_above n f t : (forall i, (i < n)%nat -> t < f i) -> exists t', t < t' /\ forall i, (i < n)%nat -> t' <= f i.
Proof.
  induction n; intros H; [exists (t + 1); split; [lra|lia]|].
  destruct IHn as (s & L & U); [intros; apply H; lia|].
  exists (Rmin s (f n)); split; [apply Rmin_glb_lt; auto|].
  intros i Hi; destruct (Nat.eq_dec i n) as [->|N]; [apply Rmin_r|].
  apply Rle_trans with s; [apply Rmin_l|apply U; lia].
Qed.

Lemma sum_append a b f : sum (a + b) f = sum a f + sum b (fun i => f (a + i)%nat).
Proof.
  induction b; cbn; [rewrite Nat.add_0_r; ring|]. rewrite Nat.add_succ_r; cbn. rewrite IHb. ring.
Qed.

Lemma sum_blocks n k f : sum (n * k) f = sum n (fun l => sum k (fun j => f (l * k + j)%nat)).
Proof.
  induction n; cbn [sum]; [reflexivity|].
  replace (S n * k)%nat with (n * k + k)%nat by lia. now rewrite sum_append, IHn.
Qed.

(* terms at most those of another sum, and the same sum: the same terms *)
Lemma sum_le_eq n f g : (forall i, (i < n)%nat -> f i <= g i) -> sum n g <= sum n f ->
  forall i, (i < n)%nat -> f i = g i.
Proof.
  intros H S i Hi. destruct (Rle_lt_or_eq_dec _ _ (H i Hi)) as [L|]; auto.
  pose proof (sum_lt n f g i H Hi L). lra.
Qed.

Lemma sum_scal_r n c f : sum n (fun i => f i * c) = sum n f * c.
Proof. rewrite Rmult_comm, <- sum_scal. apply sum_ext; intros; ring. Qed.

Lemma dot_minus k w x y : dot k w (fun j => x j - y j) = dot k w x - dot k w y.
Proof. unfold dot; rewrite <- sum_minus; apply sum_ext; intros; ring. Qed.

Lemma dot_opp k c x : dot k (fun j => - c j) x = - dot k c x.
Proof. replace (- dot k c x) with (-1 * dot k c x) by ring. rewrite <- dot_scal_l. apply sum_ext; intros; ring. Qed.

(* f of k consecutive numbers modulo k *)
Lemma sum_cycle k q f : sum k (fun l => f ((q + l) mod k)%nat) = sum k f.
Proof.
  destruct k as [|k]; [reflexivity|]. set (g := fun i => f (i mod S k)%nat).
  assert (Shift : forall a, sum (S k) (fun l => g (a + l)%nat) = sum (S k) g).
  { induction a as [|a IH]; [reflexivity|]. rewrite <- IH.
    pose proof (sum_append a (S (S k)) g) as E1. pose proof (sum_append (S a) (S k) g) as E2.
    pose proof (sum_append a (S k) g) as E3. pose proof (sum_append a 1 g) as E4.
    replace (a + S (S k))%nat with (S a + S k)%nat in E1 by lia.
    assert (E : g (a + S k)%nat = g a).
    { unfold g. f_equal. rewrite <- (Nat.mod_add a 1 (S k)) by lia. f_equal. lia. }
    cbn [sum Nat.add] in *. rewrite !Nat.add_0_r in *. rewrite Nat.add_succ_r in *. lra. }
  etransitivity; [exact (Shift q)|]. apply sum_ext; intros i Hi. unfold g. now rewrite Nat.mod_small.
Qed.

(* 1 at index a, 0 elsewhere *)
Definition ind (a i : nat) : R := if Nat.eqb i a then 1 else 0.

Lemma ind_same a : ind a a = 1.
Proof. unfold ind. now rewrite Nat.eqb_refl. Qed.

Lemma ind_other a i : i <> a -> ind a i = 0.
Proof. intros H. unfold ind. destruct (Nat.eqb_spec i a); [contradiction|reflexivity]. Qed.

Lemma ind_nonneg a i : 0 <= ind a i.
Proof. unfold ind. destruct Nat.eqb; lra. Qed.

Lemma sum_ind n f a : (a < n)%nat -> sum n (fun i => ind a i * f i) = f a.
Proof.
  intros H. rewrite <- (sum_at n a (f a) H). apply sum_ext; intros i _. unfold ind.
  destruct (Nat.eqb_spec i a) as [->|]; ring.
Qed.

Lemma dot_ind k c a : (a < k)%nat -> dot k c (ind a) = c a.
Proof. intros H. rewrite <- (sum_ind k c a H). apply sum_ext; intros; ring. Qed.

Lemma ind_dot k a x : (a < k)%nat -> dot k (ind a) x = x a.
Proof. apply sum_ind. Qed.

Lemma sum_one n a : (a < n)%nat -> sum n (ind a) = 1.
Proof. apply (sum_at n a 1). Qed.

(* -- Rounding -- *)

(* x rounded up *)
Definition ceiling (x : R) : Z := (- Int_part (- x))%Z.

Lemma ceiling_spec x : x <= IZR (ceiling x) < x + 1.
Proof. unfold ceiling. rewrite opp_IZR. destruct (base_Int_part (- x)). lra. Qed.

Lemma INR_above x : exists k : nat, x < INR k.
Proof.
  destruct (Rlt_dec x 0) as [L|L]; [exists O; exact L|]. destruct (archimed x) as (U & _). exists (Z.to_nat (up x)).
  rewrite INR_IZR_INZ, Z2Nat.id; [exact U|]. apply le_IZR. lra.
Qed.

Lemma nat_floor u : 0 <= u -> exists k : nat, INR k <= u < INR k + 1.
Proof.
  intros U. destruct (INR_above u) as (N & UN). induction N as [|N IH]; [cbn in UN; lra|]. rewrite S_INR in UN.
  destruct (Rlt_dec u (INR N)) as [L|L]; [now apply IH|]. exists N. lra.
Qed.

(* -- Sums of natural numbers -- *)

Fixpoint nsum (n : nat) (f : nat -> nat) : nat := match n with O => O | S n => (nsum n f + f n)%nat end.

Section NaturalSums.
Local Open Scope nat_scope.

Lemma INR_nsum n f : INR (nsum n f) = sum n (fun i => INR (f i)).
Proof. induction n; cbn [nsum sum]; [reflexivity|]. now rewrite plus_INR, IHn. Qed.

Lemma nsum_le n f g : (forall i, i < n -> f i <= g i) -> nsum n f <= nsum n g.
Proof. induction n; intros H; cbn; [lia|]. pose proof (H n). assert (nsum n f <= nsum n g) by auto. lia. Qed.

Lemma nsum_ext n f g : (forall i, i < n -> f i = g i) -> nsum n f = nsum n g.
Proof. intros H. apply Nat.le_antisymm; apply nsum_le; intros i I; rewrite (H i I); auto. Qed.

Lemma nsum_plus n f g : nsum n (fun i => f i + g i) = nsum n f + nsum n g.
Proof. induction n; cbn; lia. Qed.

Lemma nsum_mult n c f : nsum n (fun i => c * f i) = c * nsum n f.
Proof. induction n; cbn; lia. Qed.

Lemma nsum_zero n f : (forall i, i < n -> f i = 0) -> nsum n f = 0.
Proof. induction n; intros H; cbn; [reflexivity|]. rewrite IHn, H; auto. Qed.

Lemma nsum_ones n : nsum n (fun _ => 1) = n.
Proof. induction n; cbn; lia. Qed.

Lemma nsum_swap n k (f : nat -> nat -> nat) :
  nsum n (fun i => nsum k (f i)) = nsum k (fun j => nsum n (fun i => f i j)).
Proof. induction n; cbn; [symmetry; now apply nsum_zero|]. now rewrite IHn, <- nsum_plus. Qed.

Lemma nsum_append m p f : nsum (m + p) f = nsum m f + nsum p (fun v => f (m + v)).
Proof. induction p; [rewrite Nat.add_0_r; cbn; lia|]. rewrite Nat.add_succ_r. cbn. lia. Qed.

(* one entry differs *)
Lemma nsum_one n f g a : a < n -> (forall i, i < n -> i <> a -> f i = g i) -> nsum n f + g a = nsum n g + f a.
Proof.
  induction n; intros Ha H; [lia|]; cbn. destruct (Nat.eq_dec a n) as [->|D].
  - rewrite (nsum_ext n f g); [lia|]. intros; apply H; lia.
  - pose proof (H n). assert (nsum n f + g a = nsum n g + f a) by (apply IHn; auto; lia). lia.
Qed.

Lemma nsum_at n a c : a < n -> nsum n (fun i => if Nat.eqb i a then c else 0) = c.
Proof.
  intros A. pose proof (nsum_one n (fun i => if Nat.eqb i a then c else 0) (fun _ => 0) a A) as H. cbv beta in H.
  rewrite Nat.eqb_refl, (nsum_zero n (fun _ => 0)), Nat.add_0_r in H by auto. apply H.
  intros i _ N. now destruct (Nat.eqb_spec i a).
Qed.

Lemma nsum_term n f a : a < n -> f a <= nsum n f.
Proof.
  induction n; cbn; intros Ha; [lia|]. destruct (Nat.eq_dec a n) as [->|]; [lia|]. specialize (IHn ltac:(lia)). lia.
Qed.

Lemma nsum_positive n f : 0 < nsum n f -> exists a, a < n /\ 0 < f a.
Proof.
  induction n; cbn; intros H; [lia|]. destruct (Nat.eq_dec (f n) 0) as [Z|P]; [|exists n; lia].
  destruct IHn as (a & L & P); [lia|]. exists a; lia.
Qed.

Lemma nsum_cycle k q f : nsum k (fun l => f ((q + l) mod k)) = nsum k f.
Proof. apply INR_eq. rewrite !INR_nsum. apply (sum_cycle k q (fun i => INR (f i))). Qed.

End NaturalSums.

(* -- The largest of finitely many numbers, none below 0 -- *)

Fixpoint largest (n : nat) (f : nat -> R) : R := match n with O => 0 | S n => Rmax (largest n f) (f n) end.

Lemma largest_ge n f i : (i < n)%nat -> f i <= largest n f.
Proof.
  induction n; intros Hi; [lia|]; cbn. destruct (Nat.eq_dec i n) as [->|]; [apply Rmax_r|].
  apply Rle_trans with (largest n f); [apply IHn; lia|apply Rmax_l].
Qed.

Lemma largest_nonneg n f : 0 <= largest n f.
Proof. induction n; cbn; [lra|]. apply Rle_trans with (largest n f); [assumption|apply Rmax_l]. Qed.

Lemma largest_le n f b : 0 <= b -> (forall i, (i < n)%nat -> f i <= b) -> largest n f <= b.
Proof. induction n; intros B H; cbn; [exact B|]. apply Rmax_lub; [apply IHn; auto|apply H; lia]. Qed.

Lemma largest_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> largest n f = largest n g.
Proof. induction n; intros H; cbn; [reflexivity|]. rewrite IHn, (H n); auto. Qed.

Lemma largest_at n f a : (a < n)%nat -> 0 <= f a -> (forall i, (i < n)%nat -> f i <= f a) -> largest n f = f a.
Proof. intros Ha Pos H. apply Rle_antisym; [now apply largest_le|now apply largest_ge]. Qed.

Lemma largest_reached n f : 0 < largest n f -> exists i, (i < n)%nat /\ f i = largest n f.
Proof.
  induction n; cbn; intros P; [lra|]. destruct (Rle_lt_dec (f n) (largest n f)) as [L|L].
  - rewrite Rmax_left in * by auto. destruct (IHn P) as (i & I & E); exists i; auto.
  - rewrite Rmax_right in * by lra. exists n; auto.
Qed.

(* -- Finite searches -- *)

Lemma finite_choice {A} (d : A) n (allowed : nat -> A -> Prop) : (forall i, (i < n)%nat -> exists v, allowed i v) ->
  exists f, forall i, (i < n)%nat -> allowed i (f i).
Proof.
  induction n as [|n IH]; intros E; [exists (fun _ => d); lia|].
  destruct IH as (f & F); [intros; apply E; lia|]. destruct (E n) as (v & V); [lia|].
  exists (fun i => if Nat.eqb i n then v else f i). intros i I.
  destruct (Nat.eqb_spec i n) as [->|]; [exact V|apply F; lia].
Qed.

(* All functions from i < n to the values allowed for i; elsewhere they are d. *)
Fixpoint functions {A} (d : A) (values : nat -> list A) (n : nat) : list (nat -> A) :=
  match n with
  | O => [fun _ => d]
  | S n => flat_map (fun f => map (fun v i => if Nat.eqb i n then v else f i) (values n)) (functions d values n)
  end.

Lemma functions_agree {A} (d : A) values (agree : A -> A -> Prop) n f :
  (forall i, (i < n)%nat -> exists v, In v (values i) /\ agree v (f i)) ->
  exists g, In g (functions d values n) /\ forall i, (i < n)%nat -> agree (g i) (f i).
Proof.
  induction n as [|n IH]; intros F; [exists (fun _ => d); split; [now left|lia]|].
  destruct IH as (g & G & E); [intros; apply F; lia|]. destruct (F n ltac:(lia)) as (v & V & Ev).
  exists (fun i => if Nat.eqb i n then v else g i); split.
  - cbn. apply in_flat_map. exists g; split; auto. apply in_map_iff. exists v; split; auto.
  - intros i I. destruct (Nat.eqb_spec i n) as [->|]; [exact Ev|]. apply E; lia.
Qed.

Lemma functions_complete {A} (d : A) values n f : (forall i, (i < n)%nat -> In (f i) (values i)) ->
  exists g, In g (functions d values n) /\ forall i, (i < n)%nat -> g i = f i.
Proof. intros F. apply (functions_agree d values eq). intros i I. exists (f i); auto. Qed.

(* Of finitely many candidates one has the least value, and one the largest. *)
Lemma least_of_list {A} (l : list A) (allowed : A -> Prop) (v : A -> R) : (exists x, In x l /\ allowed x) ->
  exists x, In x l /\ allowed x /\ forall y, In y l -> allowed y -> v x <= v y.
Proof.
  induction l as [|a l IH]; intros (x & I & X); [destruct I|].
  destruct (classic (exists y, In y l /\ allowed y)) as [E|N].
  - destruct (IH E) as (z & Z & L & M). destruct (classic (allowed a /\ v a < v z)) as [(La & W)|W].
    + exists a; split; [now left|split; [auto|]]. intros y [<-|Y] Ly; [lra|]. specialize (M y Y Ly); lra.
    + exists z; split; [now right|split; [auto|]]. intros y [<-|Y] Ly; [|auto].
      destruct (Rle_lt_dec (v z) (v a)); [auto|]. exfalso; apply W; auto.
  - assert (x = a) as -> by (destruct I as [<-|I]; [auto|exfalso; apply N; exists x; auto]).
    exists a; split; [now left|split; [auto|]]. intros y [<-|Y] Ly; [lra|]. exfalso; apply N; exists y; auto.
Qed.

Lemma best_of_list {A} (l : list A) (allowed : A -> Prop) (v : A -> R) : (exists x, In x l /\ allowed x) ->
  exists x, In x l /\ allowed x /\ forall y, In y l -> allowed y -> v y <= v x.
Proof.
  intros E. destruct (least_of_list l allowed (fun x => - v x) E) as (x & I & X & Least).
  exists x. repeat split; auto. intros y Y Ay. specialize (Least y Y Ay). cbn in Least. lra.
Qed.

Lemma least_index n (P : nat -> Prop) (f : nat -> R) : (exists j, (j < n)%nat /\ P j) ->
  exists a, (a < n)%nat /\ P a /\ forall j, (j < n)%nat -> P j -> f a <= f j.
Proof.
  intros (i & Hi & Pi). assert (In_seq : forall j, (j < n)%nat -> In j (seq 0 n)) by (intros; apply in_seq; lia).
  destruct (least_of_list (seq 0 n) P f) as (a & I & Pa & Least); [exists i; auto|]. apply in_seq in I.
  exists a. split; [lia|auto].
Qed.

Lemma largest_index n (P : nat -> Prop) (f : nat -> R) : (exists j, (j < n)%nat /\ P j) ->
  exists a, (a < n)%nat /\ P a /\ forall j, (j < n)%nat -> P j -> f j <= f a.
Proof.
  intros E. destruct (least_index n P (fun j => - f j) E) as (a & Ha & Pa & Least).
  exists a. repeat split; auto. intros j Hj Pj. specialize (Least j Hj Pj). cbn in Least. lra.
Qed.
