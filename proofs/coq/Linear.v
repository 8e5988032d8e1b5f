(* Linear programs over the reals: a bounded feasible program has an optimum, and strong duality.
   All of it follows from the elimination of variables (Fourier and Motzkin). *)
From Coq Require Import Reals Lra Lia List PeanoNat.
From Hetopt Require Import Sums.
Import ListNotations.
Open Scope R_scope.

(* A row says  dot n a x <= b. *)
Record row := Row { coefficients : nat -> R; bound : R }.

Definition holds (n : nat) (x : nat -> R) (r : row) : Prop := dot n (coefficients r) x <= bound r.
Definition all_hold (n : nat) (rows : list row) (x : nat -> R) : Prop := Forall (holds n x) rows.

Definition combine (u : R) (r : row) (v : R) (s : row) : row :=
  Row (fun j => u * coefficients r j + v * coefficients s j) (u * bound r + v * bound s).

(* Elimination of variable n from rows over variables 0..n. *)
Definition upper (n : nat) (r : row) : bool := if Rlt_dec 0 (coefficients r n) then true else false.
Definition lower (n : nat) (r : row) : bool := if Rlt_dec (coefficients r n) 0 then true else false.
Definition absent (n : nat) (r : row) : bool := if Req_EM_T (coefficients r n) 0 then true else false.

Definition eliminated (n : nat) (rows : list row) : list row :=
  filter (absent n) rows ++
  flat_map (fun r => map (fun s => combine (- coefficients s n) r (coefficients r n) s) (filter (lower n) rows))
    (filter (upper n) rows).

Lemma upper_spec n r : upper n r = true <-> 0 < coefficients r n.
Proof. unfold upper; destruct Rlt_dec; split; intros; auto; try discriminate; lra. Qed.
Lemma lower_spec n r : lower n r = true <-> coefficients r n < 0.
Proof. unfold lower; destruct Rlt_dec; split; intros; auto; try discriminate; lra. Qed.
Lemma absent_spec n r : absent n r = true <-> coefficients r n = 0.
Proof. unfold absent; destruct Req_EM_T; split; intros; auto; try discriminate; lra. Qed.

(* Between finitely many lower and upper bounds, each lower one at most each upper one, lies a number. *)
Lemma between (l u : list R) : (forall a b, In a l -> In b u -> a <= b) ->
  exists t, (forall a, In a l -> a <= t) /\ (forall b, In b u -> t <= b).
Proof.
  revert u; induction l as [|a l IH]; intros u H.
  - induction u as [|b u IHu]; [exists 0; split; intros ? []|].
    destruct IHu as (t & _ & T); [intros ? ? []|]. exists (Rmin t b); split; [intros ? []|].
    intros c [<-|C]; [apply Rmin_r|]. apply Rle_trans with t; [apply Rmin_l|auto].
  - destruct (IH u) as (t & L & U); [intros; apply H; [right|]; auto|].
    exists (Rmax t a); split.
    + intros c [<-|C]; [apply Rmax_r|]. apply Rle_trans with t; [auto|apply Rmax_l].
    + intros b B. apply Rmax_lub; [auto|apply H; [left|]; auto].
Qed.

Definition extended (n : nat) (x : nat -> R) (t : R) : nat -> R := fun j => if Nat.eqb j n then t else x j.

Lemma dot_extended n a x t : dot (S n) a (extended n x t) = dot n a x + a n * t.
Proof.
  unfold dot; cbn. unfold extended at 2; rewrite Nat.eqb_refl. f_equal.
  apply sum_ext; intros i Hi; unfold extended. destruct (Nat.eqb_spec i n); [lia|reflexivity].
Qed.

Lemma dot_combine n u r v s x :
  dot n (coefficients (combine u r v s)) x = u * dot n (coefficients r) x + v * dot n (coefficients s) x.
Proof.
  unfold dot; cbn. rewrite <- !sum_scal, <- sum_plus. apply sum_ext; intros; ring.
Qed.

Lemma elimination n rows x : all_hold n (eliminated n rows) x -> exists t, all_hold (S n) rows (extended n x t).
Proof.
  unfold all_hold; rewrite Forall_forall; intros F.
  set (value := fun r => (bound r - dot n (coefficients r) x) / coefficients r n).
  destruct (between (map value (filter (lower n) rows)) (map value (filter (upper n) rows))) as (t & L & U).
  - intros a b A B. apply in_map_iff in A as (s & <- & S1). apply in_map_iff in B as (r & <- & R1).
    pose proof S1 as S2. pose proof R1 as R2.
    apply filter_In in S1 as (_ & S1). apply filter_In in R1 as (_ & R1).
    apply lower_spec in S1. apply upper_spec in R1.
    assert (C : holds n x (combine (- coefficients s n) r (coefficients r n) s)).
    { apply F. unfold eliminated. apply in_or_app; right. apply in_flat_map. exists r; split; auto.
      apply in_map_iff. exists s; auto. }
    unfold holds in C. rewrite dot_combine in C. cbn in C.
    assert (A1 : value s * coefficients s n = bound s - dot n (coefficients s) x) by (unfold value; field; lra).
    assert (B1 : value r * coefficients r n = bound r - dot n (coefficients r) x) by (unfold value; field; lra).
    destruct (Rle_lt_dec (value s) (value r)) as [|W]; [assumption|exfalso].
    assert (0 < coefficients r n * - coefficients s n * (value s - value r))
      by (repeat apply Rmult_lt_0_compat; lra).
    nra.
  - exists t. apply Forall_forall. intros r I. unfold holds. rewrite dot_extended.
    destruct (Rtotal_order (coefficients r n) 0) as [N|[Z|P]].
    + specialize (L (value r)). unfold value in L.
      assert (V : (bound r - dot n (coefficients r) x) / coefficients r n <= t).
      { apply L. apply in_map_iff. exists r; split; auto. apply filter_In; split; auto. now apply lower_spec. }
      apply Rmult_le_compat_neg_l with (r := coefficients r n) in V; [|lra].
      replace (coefficients r n * ((bound r - dot n (coefficients r) x) / coefficients r n))
        with (bound r - dot n (coefficients r) x) in V by (field; lra). lra.
    + assert (H : holds n x r).
      { apply F. apply in_or_app; left. apply filter_In; split; auto. now apply absent_spec. }
      unfold holds in H. rewrite Z. lra.
    + assert (V : t <= (bound r - dot n (coefficients r) x) / coefficients r n).
      { apply U. apply in_map_iff. exists r; split; auto. apply filter_In; split; auto. now apply upper_spec. }
      apply Rmult_le_compat_l with (r := coefficients r n) in V; [|lra].
      replace (coefficients r n * ((bound r - dot n (coefficients r) x) / coefficients r n))
        with (bound r - dot n (coefficients r) x) in V by (field; lra). lra.
Qed.

(* Rows that follow from a list by weights of at least 0. *)
Inductive derived (rows : list row) : row -> Prop :=
  | derived_zero : derived rows (Row (fun _ => 0) 0)
  | derived_given r : In r rows -> derived rows r
  | derived_sum u r v s : 0 <= u -> 0 <= v -> derived rows r -> derived rows s -> derived rows (combine u r v s).

Lemma derived_holds n rows x r : all_hold n rows x -> derived rows r -> holds n x r.
Proof.
  unfold all_hold; rewrite Forall_forall; intros F D; induction D; auto; unfold holds in *.
  - cbn. unfold dot. rewrite sum_zero; [lra|intros; ring].
  - rewrite dot_combine. cbn. nra.
Qed.

Lemma derived_trans rows rows' r : (forall s, In s rows' -> derived rows s) -> derived rows' r -> derived rows r.
Proof. intros H D; induction D; [constructor|auto|now constructor]. Qed.

Lemma eliminated_derived n rows r : In r (eliminated n rows) -> derived rows r.
Proof.
  unfold eliminated; intros I. apply in_app_or in I as [I|I].
  - apply filter_In in I as [I _]. now constructor.
  - apply in_flat_map in I as (p & P & I). apply in_map_iff in I as (q & <- & Q).
    apply filter_In in P as (P & P1). apply filter_In in Q as (Q & Q1).
    apply upper_spec in P1. apply lower_spec in Q1. constructor; [lra|lra|now constructor|now constructor].
Qed.

Lemma eliminated_absent n rows r : derived (eliminated n rows) r -> coefficients r n = 0.
Proof.
  intros D; induction D as [|r I|]; [reflexivity| |cbn; nra].
  unfold eliminated in I. apply in_app_or in I as [I|I].
  - apply filter_In in I as [_ I]. now apply absent_spec.
  - apply in_flat_map in I as (p & P & I). apply in_map_iff in I as (q & <- & Q). cbn. ring.
Qed.

Lemma farkas n rows : (exists x, all_hold n rows x) \/
  exists r, derived rows r /\ (forall j, (j < n)%nat -> coefficients r j = 0) /\ bound r < 0.
Proof.
  revert rows; induction n as [|n IH]; intros rows.
  - induction rows as [|r rows IH]; [left; exists (fun _ => 0); constructor|].
    destruct IH as [(x & F)|(s & D & Z & N)].
    + destruct (Rle_lt_dec 0 (bound r)) as [P|N].
      * left; exists x; constructor; [exact P|exact F].
      * right; exists r; repeat split; [constructor; now left|lia|exact N].
    + right; exists s; repeat split; auto.
      apply derived_trans with rows; auto. intros t T; constructor; now right.
  - destruct (IH (eliminated n rows)) as [(x & F)|(r & D & Z & N)].
    + left. destruct (elimination n rows x F) as (t & T). now exists (extended n x t).
    + right; exists r; repeat split; auto.
      * apply derived_trans with (eliminated n rows); auto. intros s; apply eliminated_derived.
      * intros j J. destruct (Nat.eq_dec j n) as [->|K]; [now apply eliminated_absent with rows|apply Z; lia].
Qed.

Lemma derived_cons q rows r : derived (q :: rows) r ->
  exists s p, 0 <= s /\ derived rows p /\ (forall j, coefficients r j = coefficients p j + s * coefficients q j) /\
    bound r = bound p + s * bound q.
Proof.
  intros D; induction D as [|r [<-|I]|u r v t U V D1 (s1 & p1 & S1 & P1 & C1 & B1) D2 (s2 & p2 & S2 & P2 & C2 & B2)].
  - exists 0, (Row (fun _ => 0) 0); repeat split; [lra|constructor|intros; cbn; ring|cbn; ring].
  - exists 1, (Row (fun _ => 0) 0); repeat split; [lra|constructor|intros; cbn; ring|cbn; ring].
  - exists 0, r; repeat split; [lra|now constructor|intros; ring|ring].
  - exists (u * s1 + v * s2), (combine u p1 v p2); repeat split; [nra|now constructor| |].
    + intros j; cbn. rewrite C1, C2. ring.
    + cbn. rewrite B1, B2. ring.
Qed.

Definition optimal (n : nat) (rows : list row) (c x : nat -> R) : Prop :=
  all_hold n rows x /\ forall y, all_hold n rows y -> dot n c y <= dot n c x.

(* No point has the value v or more: then a derived row proves a bound below v. *)
Lemma proof_of_bound n rows c v x0 : all_hold n rows x0 ->
  (exists x, all_hold n rows x /\ v <= dot n c x) \/
  exists r, derived rows r /\ (forall j, (j < n)%nat -> coefficients r j = c j) /\ bound r < v.
Proof.
  intros F0. destruct (farkas n (Row (fun j => - c j) (- v) :: rows)) as [(x & F)|(r & D & Z & N)].
  - left; exists x. inversion F as [|? ? H T]; subst. split; auto. unfold holds in H; cbn in H.
    rewrite dot_opp in H. lra.
  - right. apply derived_cons in D as (s & p & S & P & C & B). cbn in C, B.
    pose proof (derived_holds n rows x0 p F0 P) as H. unfold holds in H.
    assert (E : dot n (coefficients p) x0 = s * dot n c x0).
    { rewrite <- dot_scal_l. apply sum_ext. intros j J. rewrite <- (Rplus_0_r (coefficients p j)).
      specialize (C j). rewrite (Z j J) in C. replace (coefficients p j) with (s * c j) by lra. ring. }
    assert (0 < s \/ s = 0) as [L|L] by lra.
    + exists (combine (/ s) p 0 p); repeat split.
      * constructor; auto; [apply Rlt_le, Rinv_0_lt_compat; auto|lra].
      * intros j J; cbn. specialize (C j). rewrite (Z j J) in C.
        replace (coefficients p j) with (s * c j) by lra. field; lra.
      * cbn. apply Rmult_lt_reg_l with s; auto. field_simplify; lra.
    + subst s. exfalso. rewrite E in H. lra.
Qed.

Lemma optimum_exists n rows c x0 u : all_hold n rows x0 ->
  (forall x, all_hold n rows x -> dot n c x <= u) -> exists x, optimal n rows c x.
Proof.
  intros F0 U. set (E := fun v => exists x, all_hold n rows x /\ v = dot n c x).
  destruct (completeness E) as (v & V1 & V2).
  - exists u. intros ? (x & F & ->); auto.
  - exists (dot n c x0), x0; auto.
  - destruct (proof_of_bound n rows c v x0 F0) as [(x & F & G)|(r & D & C & B)].
    + exists x; split; auto. intros y Y. apply Rle_trans with v; auto. apply V1. now exists y.
    + exfalso. apply (Rlt_not_le v (bound r)); auto. apply V2. intros ? (x & F & ->).
      pose proof (derived_holds n rows x r F D) as H. unfold holds in H.
      replace (dot n c x) with (dot n (coefficients r) x); auto. apply sum_ext; intros j J; now rewrite C.
Qed.

(* max c x, A x <= b, x >= 0   and   min b y, A^T y >= c, y >= 0. *)
Section Duality.
Variables (m n : nat) (A : nat -> nat -> R) (b c : nat -> R).

Definition primal (x : nat -> R) : Prop :=
  (forall j, (j < n)%nat -> 0 <= x j) /\ forall i, (i < m)%nat -> dot n (A i) x <= b i.
Definition dual (y : nat -> R) : Prop :=
  (forall i, (i < m)%nat -> 0 <= y i) /\ forall j, (j < n)%nat -> c j <= dot m (fun i => A i j) y.

Lemma weak_duality x y : primal x -> dual y -> dot n c x <= dot m b y.
Proof.
  intros [X P] [Y D].
  apply Rle_trans with (sum n (fun j => sum m (fun i => A i j * y i * x j))).
  - apply sum_le; intros j J. specialize (D j J). specialize (X j J).
    replace (sum m (fun i => A i j * y i * x j)) with (x j * dot m (fun i => A i j) y); [nra|].
    unfold dot; rewrite <- sum_scal; apply sum_ext; intros; ring.
  - rewrite sum_swap. apply sum_le; intros i I. specialize (P i I). specialize (Y i I).
    replace (sum n (fun j => A i j * y i * x j)) with (y i * dot n (A i) x); [nra|].
    unfold dot; rewrite <- sum_scal; apply sum_ext; intros; ring.
Qed.

Let at_least_zero (i : nat) : row := Row (fun h => if Nat.eqb h i then -1 else 0) 0.

Lemma at_least_zero_holds k x i : (i < k)%nat -> holds k x (at_least_zero i) <-> 0 <= x i.
Proof.
  intros K. unfold holds. cbn. replace (dot k _ x) with (- x i); [lra|].
  unfold dot. rewrite <- (sum_at k i (- x i)) by auto. apply sum_ext; intros h _. destruct Nat.eqb eqn:E; [|ring].
  apply Nat.eqb_eq in E; subst; ring.
Qed.

Let primal_rows : list row := map (fun i => Row (A i) (b i)) (seq 0 m) ++ map at_least_zero (seq 0 n).
Let dual_rows : list row := map (fun j => Row (fun i => - A i j) (- c j)) (seq 0 n) ++ map at_least_zero (seq 0 m).

Lemma primal_rows_spec x : all_hold n primal_rows x <-> primal x.
Proof.
  unfold all_hold, primal_rows, primal. rewrite Forall_app, !Forall_map, !Forall_forall. split.
  - intros [P X]; split; intros i I.
    + apply (at_least_zero_holds n x i I), X, in_seq; lia.
    + apply (P i), in_seq; lia.
  - intros [X P]; split; intros i I; apply in_seq in I.
    + apply P; lia.
    + apply at_least_zero_holds; [lia|apply X; lia].
Qed.

Lemma dual_rows_spec y : all_hold m dual_rows y <-> dual y.
Proof.
  unfold all_hold, dual_rows, dual. rewrite Forall_app, !Forall_map, !Forall_forall. split.
  - intros [P X]; split; intros i I.
    + apply (at_least_zero_holds m y i I), X, in_seq; lia.
    + specialize (P i). unfold holds in P; cbn in P. rewrite dot_opp in P. apply Ropp_le_cancel, P, in_seq; lia.
  - intros [X P]; split; intros i I; apply in_seq in I.
    + unfold holds; cbn. rewrite dot_opp. apply Ropp_le_contravar, P; lia.
    + apply at_least_zero_holds; [lia|apply X; lia].
Qed.

Lemma derived_dual r : derived primal_rows r -> exists y,
  (forall i, (i < m)%nat -> 0 <= y i) /\
  (forall j, (j < n)%nat -> coefficients r j <= dot m (fun i => A i j) y) /\ bound r = dot m b y.
Proof.
  assert (Z : forall f, dot m f (fun _ => 0) = 0) by (intros; apply sum_zero; intros; ring).
  intros D; induction D as [|r I|u r v s U V D1 (y1 & Y1 & C1 & B1) D2 (y2 & Y2 & C2 & B2)].
  - exists (fun _ => 0); repeat split; intros; cbn; rewrite ?Z; lra.
  - unfold primal_rows in I. apply in_app_or in I as [I|I]; apply in_map_iff in I as (i & <- & I); apply in_seq in I.
    + exists (ind i); repeat split.
      * intros h _; apply ind_nonneg.
      * intros j J; cbn. rewrite dot_ind by lia. lra.
      * cbn. now rewrite dot_ind by lia.
    + exists (fun _ => 0); repeat split; intros; cbn; rewrite ?Z; try lra. destruct Nat.eqb; lra.
  - exists (fun i => u * y1 i + v * y2 i).
    assert (E : forall f, dot m f (fun i => u * y1 i + v * y2 i) = u * dot m f y1 + v * dot m f y2).
    { intros f. rewrite <- !dot_scal, <- dot_plus. reflexivity. }
    repeat split; intros.
    + specialize (Y1 i H). specialize (Y2 i H). nra.
    + cbn. rewrite E. specialize (C1 j H). specialize (C2 j H). nra.
    + cbn. rewrite E, B1, B2. ring.
Qed.

Lemma strong_duality x0 u : primal x0 -> (forall x, primal x -> dot n c x <= u) ->
  exists x y, primal x /\ dual y /\ dot n c x = dot m b y.
Proof.
  intros F0 U.
  assert (P : forall v, (exists x, primal x /\ v <= dot n c x) \/ exists y, dual y /\ dot m b y < v).
  { intros v. apply primal_rows_spec in F0.
    destruct (proof_of_bound n primal_rows c v x0 F0) as [(x & F & G)|(r & D & C & B)].
    - left; exists x; split; auto. now apply primal_rows_spec.
    - right. destruct (derived_dual r D) as (y & Y & C' & B'). exists y; repeat split; auto; [|lra].
      intros j J; rewrite <- (C j J); auto. }
  destruct (P (u + 1)) as [(x & F & G)|(y0 & D0 & _)]; [specialize (U x F); lra|].
  destruct (optimum_exists m dual_rows (fun i => - b i) y0 (- dot n c x0)) as (y & Y & M).
  - now apply dual_rows_spec.
  - intros y F. apply dual_rows_spec in F. rewrite dot_opp. pose proof (weak_duality x0 y F0 F). lra.
  - apply dual_rows_spec in Y. destruct (P (dot m b y)) as [(x & F & G)|(z & D & L)].
    + exists x, y; repeat split; try apply F; try apply Y. apply Rle_antisym; auto. now apply weak_duality.
    + exfalso. apply dual_rows_spec in D. specialize (M z D). rewrite !dot_opp in M. lra.
Qed.

End Duality.
