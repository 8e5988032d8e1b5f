(* Finite sums and dot products of real numbers. *)
From Coq Require Import Reals Lra Lia PeanoNat.
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
Lemma room n f t : (forall i, (i < n)%nat -> t < f i) -> exists t', t < t' /\ forall i, (i < n)%nat -> t' <= f i.
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
