(* One machine with preemption, in continuous time: shortest remaining time first (SRPT). *)
From Coq Require Import Reals ZArith Lra Lia PeanoNat Classical.
From Hetopt Require Import Sums Hypotheses.
Open Scope R_scope.

(* Induction over the real numbers from s on: just after each time, and in the limit from the left. *)
Lemma real_induction (P : R -> Prop) s : P s ->
  (forall t, s <= t -> P t -> exists e, 0 < e /\ forall u, t < u < t + e -> P u) ->
  (forall t, s < t -> (forall u, s <= u < t -> P u) -> P t) ->
  forall t, s <= t -> P t.
Proof.
  intros Base Step Limit t0 T0. apply NNPP; intros N.
  assert (Single : s <= s /\ forall u, s <= u <= s -> P u).
  { split; [lra|]. intros u U. now replace u with s by lra. }
  destruct (completeness (fun x => s <= x /\ forall u, s <= u <= x -> P u)) as (m & Up & Least).
  - exists t0. intros x (_ & X). destruct (Rle_dec x t0); auto. exfalso; apply N, X; lra.
  - exists s; exact Single.
  - assert (Sm : s <= m) by (apply Up; exact Single).
    assert (Below : forall u, s <= u < m -> P u).
    { intros u U. apply NNPP; intros F. assert (m <= u); [|lra]. apply Least. intros x (_ & X).
      destruct (Rle_dec x u); auto. exfalso; apply F, X; lra. }
    assert (Pm : P m) by (destruct (Req_dec m s) as [->|]; [exact Base|apply Limit; auto; lra]).
    destruct (Step m Sm Pm) as (e & E & Q).
    assert (m + e / 2 <= m); [|lra]. apply Up. split; [lra|]. intros u U.
    destruct (Rlt_dec u m); [apply Below; lra|]. destruct (Req_dec u m) as [->|]; [exact Pm|apply Q; lra].
Qed.

(* The first time at which P holds. *)
Definition first (P : R -> Prop) (t : R) : Prop := P t /\ forall u, P u -> t <= u.

Lemma first_exists (P : R -> Prop) s t : P t -> (forall u, P u -> s <= u) ->
  (forall u, ~ P u -> exists e, 0 < e /\ forall v, u < v < u + e -> ~ P v) -> exists u, first P u.
Proof.
  intros Pt Low Open. apply NNPP; intros N.
  assert (F : forall u, (forall v, s <= v < u -> ~ P v) -> ~ P u).
  { intros u B Pu. apply N. exists u; split; [exact Pu|]. intros v Pv.
    destruct (Rle_dec u v); [assumption|]. specialize (Low v Pv). exfalso; apply (B v); [lra|exact Pv]. }
  apply (real_induction (fun u => ~ P u) s) with t; auto.
  apply F. intros; lra.
Qed.

(* F is an integral of the step function f: linear just after each time, and continuous. *)
Definition accumulates (F f : R -> R) : Prop :=
  (forall t, exists e, 0 < e /\ forall u, t <= u < t + e -> F u - F t = f t * (u - t)) /\
  exists L, 0 <= L /\ forall t u, t <= u -> Rabs (F u - F t) <= L * (u - t).

Lemma accumulates_plus F f H h : accumulates F f -> accumulates H h ->
  accumulates (fun t => F t + H t) (fun t => f t + h t).
Proof.
  intros (F1 & L & L0 & FL) (H1 & K & K0 & HK). split.
  - intros t. destruct (F1 t) as (e & E & Fe), (H1 t) as (d & D & Hd). exists (Rmin e d).
    split; [apply Rmin_glb_lt; auto|]. intros u U. pose proof (Rmin_l e d). pose proof (Rmin_r e d).
    specialize (Fe u ltac:(lra)). specialize (Hd u ltac:(lra)). lra.
  - exists (L + K). split; [lra|]. intros t u U. specialize (FL t u U). specialize (HK t u U).
    replace (F u + H u - (F t + H t)) with (F u - F t + (H u - H t)) by ring.
    pose proof (Rabs_triang (F u - F t) (H u - H t)). lra.
Qed.

Lemma accumulates_scal c F f : accumulates F f -> accumulates (fun t => c * F t) (fun t => c * f t).
Proof.
  intros (F1 & L & L0 & FL). split.
  - intros t. destruct (F1 t) as (e & E & Fe). exists e; split; [exact E|]. intros u U.
    specialize (Fe u U). rewrite <- Rmult_minus_distr_l, Fe. ring.
  - exists (Rabs c * L). pose proof (Rabs_pos c). split; [apply Rmult_le_pos; auto|]. intros t u U.
    rewrite <- Rmult_minus_distr_l, Rabs_mult, Rmult_assoc. apply Rmult_le_compat_l; auto.
Qed.

Lemma accumulates_time : accumulates (fun t => t) (fun _ => 1).
Proof.
  split.
  - intros t. exists 1; split; [lra|]. intros; ring.
  - exists 1; split; [lra|]. intros t u U. rewrite Rabs_right; lra.
Qed.

Lemma accumulates_sum n F f : (forall i, (i < n)%nat -> accumulates (F i) (f i)) ->
  accumulates (fun t => sum n (fun i => F i t)) (fun t => sum n (fun i => f i t)).
Proof.
  induction n; intros H; cbn [sum].
  - split; [intros t; exists 1; split; [lra|]; intros; ring|].
    exists 0; split; [lra|]. intros t u U. rewrite Rminus_0_r, Rabs_R0; lra.
  - apply accumulates_plus; [apply IHn; intros; apply H; lia|apply H; lia].
Qed.

Lemma increases F f s t : accumulates F f -> s <= t -> (forall u, s <= u < t -> 0 <= f u) -> F s <= F t.
Proof.
  intros (F1 & L & L0 & FL) St Pos.
  apply (real_induction (fun u => u <= t -> F s <= F u) s); try lra.
  - intros u U Fu. destruct (Rlt_dec u t) as [Ut|Ut].
    + destruct (F1 u) as (e & E & Fe). exists e; split; [exact E|]. intros v V Vt.
      specialize (Fe v ltac:(lra)). specialize (Pos u ltac:(lra)). specialize (Fu ltac:(lra)).
      assert (0 <= f u * (v - u)) by (apply Rmult_le_pos; lra). lra.
    + exists 1; split; [lra|]. intros; lra.
  - intros u U Before Ut. destruct (Rle_dec (F s) (F u)) as [|N]; [assumption|exfalso].
    set (d := (F s - F u) / (2 * (L + 1))).
    assert (D : 0 < d) by (apply Rdiv_lt_0_compat; lra).
    assert (LD : L * d < F s - F u).
    { replace (F s - F u) with (2 * (L + 1) * d) by (unfold d; field; lra).
      assert (0 <= L * d) by (apply Rmult_le_pos; lra). lra. }
    set (v := Rmax s (u - d)). pose proof (Rmax_l s (u - d)). pose proof (Rmax_r s (u - d)). fold v in H, H0.
    assert (V : v < u) by (unfold v, Rmax; destruct Rle_dec; lra).
    specialize (Before v ltac:(lra) ltac:(lra)). specialize (FL v u ltac:(lra)).
    pose proof (Rle_abs (- (F u - F v))) as A. rewrite Rabs_Ropp in A.
    assert (L * (u - v) <= L * d) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(* Time that is spent in [a, b) by time t, and whether t is in [a, b). *)
Definition spent (a b t : R) : R := Rmax 0 (Rmin t b - a).
Definition during (a b t : R) : R := if Rle_dec a t then if Rlt_dec t b then 1 else 0 else 0.

Lemma accumulates_spent a b : accumulates (spent a b) (during a b).
Proof.
  assert (Case : forall t, t < a \/ a <= t < b \/ a <= t /\ b <= t) by (intros; lra).
  split.
  - intros t. destruct (Case t) as [T|[T|T]].
    + exists (a - t); split; [lra|]. intros u U. unfold spent, during, Rmax, Rmin.
      repeat destruct Rle_dec; lra.
    + exists (b - t); split; [lra|]. intros u U. unfold spent, during, Rmax, Rmin.
      repeat (destruct Rle_dec || destruct Rlt_dec); lra.
    + exists 1; split; [lra|]. intros u U. unfold spent, during, Rmax, Rmin.
      repeat (destruct Rle_dec || destruct Rlt_dec); lra.
  - exists 1; split; [lra|]. intros t u U. unfold spent, Rmax, Rmin.
    repeat destruct Rle_dec; unfold Rabs; destruct Rcase_abs; lra.
Qed.

Lemma spent_nonneg a b t : 0 <= spent a b t.
Proof. apply Rmax_l. Qed.
Lemma spent_le a b t : a <= b -> spent a b t <= b - a.
Proof. intros; unfold spent; apply Rmax_lub; [lra|]. pose proof (Rmin_r t b); lra. Qed.
Lemma spent_before a b t : t <= a -> spent a b t = 0.
Proof. intros; unfold spent; apply Rmax_left. pose proof (Rmin_l t b); lra. Qed.
Lemma spent_after a b t : a <= b -> b <= t -> spent a b t = b - a.
Proof. intros; unfold spent. rewrite Rmin_right by lra. apply Rmax_right; lra. Qed.
Lemma spent_mono a b s t : s <= t -> spent a b s <= spent a b t.
Proof. intros; unfold spent, Rmax, Rmin; repeat destruct Rle_dec; lra. Qed.

(* If at each time no fewer of the times D are still to come than of the times C, then their sum is no less. *)
Lemma sum_by_counts n C D : (forall j, (j < n)%nat -> 0 <= C j /\ 0 <= D j) ->
  (forall t, 0 <= t -> sum n (fun j => during 0 (C j) t) <= sum n (fun j => during 0 (D j) t)) ->
  sum n C <= sum n D.
Proof.
  intros Pos Counts. set (T := sum n C + sum n D).
  assert (0 <= sum n C /\ 0 <= sum n D) as (C0 & D0) by (split; apply sum_nonneg; apply Pos).
  assert (T0 : 0 <= T) by (unfold T; lra).
  assert (All : forall X, (forall j, (j < n)%nat -> 0 <= X j) -> sum n X <= T ->
    sum n (fun j => spent 0 (X j) 0) = 0 /\ sum n (fun j => spent 0 (X j) T) = sum n X).
  { intros X H XT. split; [apply sum_zero|apply sum_ext]; intros j Hj; specialize (H j Hj) as Xj.
    - apply spent_before; lra.
    - rewrite spent_after; try lra. pose proof (sum_term n X j H Hj). lra. }
  destruct (All C ltac:(apply Pos) ltac:(unfold T; lra)) as (CS & CT).
  destruct (All D ltac:(apply Pos) ltac:(unfold T; lra)) as (DS & DT).
  assert (I : sum n (fun j => spent 0 (D j) 0) + -1 * sum n (fun j => spent 0 (C j) 0)
    <= sum n (fun j => spent 0 (D j) T) + -1 * sum n (fun j => spent 0 (C j) T)); [|lra].
  apply (increases (fun t => sum n (fun j => spent 0 (D j) t) + -1 * sum n (fun j => spent 0 (C j) t))
    (fun t => sum n (fun j => during 0 (D j) t) + -1 * sum n (fun j => during 0 (C j) t))); [|exact T0|].
  - apply accumulates_plus; [|apply accumulates_scal]; apply accumulates_sum; intros; apply accumulates_spent.
  - intros u U. specialize (Counts u ltac:(lra)). lra.
Qed.

(* -- schedules -- *)

(* w j t: seconds of the machine that job j has got by time t. *)
Definition work := nat -> R -> R.

(* A schedule serves no job before its arrival r_j, and all jobs together for no more seconds than pass. Jobs may share
   the machine; schedules that serve one job at a time are among these. *)
Definition schedule (n : nat) (r : nat -> R) (w : work) : Prop :=
  (forall j t, (j < n)%nat -> t <= r j -> w j t = 0) /\
  (forall j s t, (j < n)%nat -> s <= t -> w j s <= w j t) /\
  (forall s t, s <= t -> sum n (fun j => w j t - w j s) <= t - s).

(* Job j, of p_j seconds, has arrived and is done; or it has arrived and is not. *)
Definition done (r p : nat -> R) (w : work) (j : nat) (t : R) : Prop := r j <= t /\ p j <= w j t.
Definition present (r p : nat -> R) (w : work) (t : R) (j : nat) : Prop := r j <= t /\ w j t < p j.

(* C_j is the completion time of job j. *)
Definition completions (n : nat) (r p : nat -> R) (w : work) (C : nat -> R) : Prop :=
  forall j, (j < n)%nat -> first (done r p w j) (C j).

(* d seconds of one job, or of none. *)
Definition alone (o : option nat) (d : R) (j : nat) : R :=
  match o with Some a => if Nat.eqb j a then d else 0 | None => 0 end.

(* Job o is, at t, one of those with the shortest remaining time; None: no job is present. *)
Definition shortest (n : nat) (r p : nat -> R) (w : work) (t : R) (o : option nat) : Prop :=
  match o with
  | Some a => (a < n)%nat /\ present r p w t a /\
      forall j, (j < n)%nat -> present r p w t j -> p a - w a t <= p j - w j t
  | None => forall j, (j < n)%nat -> ~ present r p w t j
  end.

(* For some time from t on the machine serves job o, and no other. *)
Definition serves (n : nat) (w : work) (t : R) (o : option nat) : Prop :=
  exists e, 0 < e /\ forall u j, (j < n)%nat -> t <= u < t + e -> w j u = w j t + alone o (u - t) j.

(* SRPT: at each time the machine serves a job with the shortest remaining time, if any job is present. *)
Definition srpt (n : nat) (r p : nat -> R) (w : work) : Prop :=
  schedule n r w /\ forall t, exists o, shortest n r p w t o /\ serves n w t o.

(* C are the completion times of an SRPT schedule. *)
Definition srpt_completions (n : nat) (r p C : nat -> R) : Prop :=
  exists w, srpt n r p w /\ completions n r p w C.

Lemma alone_sum n o d : 0 <= d -> sum n (alone o d) <= d.
Proof.
  intros D. unfold alone. destruct o as [a|]; [|rewrite sum_zero; auto].
  destruct (le_lt_dec n a) as [L|L]; [|rewrite sum_at by exact L; lra]. rewrite sum_zero; [exact D|].
  intros i Hi. destruct (Nat.eqb_spec i a); [lia|reflexivity].
Qed.

Lemma work_rate n r w j s t : schedule n r w -> (j < n)%nat -> s <= t -> 0 <= w j t - w j s <= t - s.
Proof.
  intros (_ & Mono & Speed) Hj St.
  assert (Pos : forall i, (i < n)%nat -> 0 <= w i t - w i s) by (intros i Hi; specialize (Mono i s t Hi St); lra).
  split; [apply Pos, Hj|]. apply Rle_trans with (sum n (fun i => w i t - w i s)); [|apply Speed, St].
  apply (sum_term n (fun i => w i t - w i s)); assumption.
Qed.

Lemma work_nonneg n r w j t : schedule n r w -> (j < n)%nat -> 0 <= w j t.
Proof.
  intros S Hj. rewrite <- (proj1 S j (Rmin t (r j)) Hj (Rmin_r _ _)).
  apply (proj1 (proj2 S)); [exact Hj|apply Rmin_l].
Qed.

Lemma done_later n r p w j s t : schedule n r w -> (j < n)%nat -> s <= t -> done r p w j s -> done r p w j t.
Proof. intros S Hj St (A & D). pose proof (work_rate n r w j s t S Hj St). split; lra. Qed.

(* By time t the machine has worked for t seconds at most. *)
Lemma work_total n r w t : schedule n r w -> (forall j, (j < n)%nat -> 0 <= r j) -> 0 <= t ->
  sum n (fun j => w j t) <= t.
Proof.
  intros (Zero & _ & Speed) R0 T. specialize (Speed 0 t T).
  rewrite (sum_ext n _ (fun j => w j t - w j 0)); [lra|]. intros j Hj. rewrite (Zero j 0); auto; lra.
Qed.

Lemma completions_exist n r p w T : schedule n r w -> (forall j, (j < n)%nat -> done r p w j T) ->
  exists C, completions n r p w C.
Proof.
  intros S Ends. apply (finite_choice 0 n (fun j => first (done r p w j))). intros j Hj.
  apply (first_exists _ (r j) T); [now apply Ends|now intros u (A & _)|]. intros u N.
  destruct (Rle_dec (r j) u) as [A|A].
  - assert (L : w j u < p j) by (apply Rnot_le_lt; intros L; now apply N). exists (p j - w j u). split; [lra|].
    intros v V (_ & D). pose proof (work_rate n r w j u v S Hj ltac:(lra)). lra.
  - exists (r j - u). split; [lra|]. intros v V (A' & _). lra.
Qed.

(* -- SRPT has the least sum of completion times -- *)

Section Tails.
Variable n : nat.

Definition count (A : nat -> bool) : R := sum n (fun j => if A j then 1 else 0).
Definition out (A : nat -> bool) (f : nat -> R) : R := sum n (fun j => if A j then 0 else f j).

(* For each set B some set A is no larger, and f has outside of A (almost) no more than g outside of B. *)
Definition ahead (f g : nat -> R) : Prop :=
  forall e, 0 < e -> forall B, exists A, count A <= count B /\ out A f <= out B g + e.

Lemma sum_add_at f a d : (a < n)%nat -> sum n (fun j => f j + (if Nat.eqb j a then d else 0)) = sum n f + d.
Proof. intros Ha. rewrite sum_plus, sum_at; auto. Qed.

(* The machine serves the job with the least f for d seconds; the other one does at most d seconds of work. *)
Lemma ahead_serve f g f' g' o d : ahead f g -> 0 <= d ->
  match o with
  | Some a => (a < n)%nat /\ d <= f a /\ forall i, (i < n)%nat -> 0 < f i -> f a <= f i
  | None => forall i, (i < n)%nat -> f i = 0
  end ->
  (forall j, (j < n)%nat -> f' j = f j - alone o d j) ->
  (forall j, (j < n)%nat -> 0 <= g' j <= g j) -> sum n (fun j => g j - g' j) <= d -> ahead f' g'.
Proof.
  intros H D Least F' G' Dg e E B. destruct (H e E B) as (A & CA & OA).
  assert (G : out B g - d <= out B g' /\ 0 <= out B g').
  { split; [|apply sum_nonneg; intros i Hi; specialize (G' i Hi); destruct (B i); lra].
    apply Rle_trans with (out B g - sum n (fun j => g j - g' j)); [lra|]. unfold out. rewrite <- sum_minus.
    apply sum_le; intros i Hi. specialize (G' i Hi). destruct (B i); lra. }
  assert (Down : out A f' <= out A f).
  { apply sum_le; intros i Hi. rewrite F' by exact Hi. unfold alone. destruct (A i); [lra|].
    destruct o as [a|]; [destruct (Nat.eqb i a)|]; lra. }
  destruct o as [a|].
  2: { exists A. split; [exact CA|]. assert (out A f = 0); [|lra].
       apply sum_zero; intros i Hi. rewrite Least by exact Hi. now destruct (A i). }
  destruct Least as (Ha & Da & Least).
  assert (Served : forall X, X a = false -> out X f' = out X f - d).
  { intros X Xa. unfold out. replace (sum n (fun j => if X j then 0 else f j) - d)
      with (sum n (fun j => if X j then 0 else f j) + - d) by ring.
    rewrite <- (sum_add_at _ a) by exact Ha. apply sum_ext; intros i Hi. rewrite F' by exact Hi. unfold alone.
    destruct (Nat.eqb_spec i a) as [->|]; [rewrite Xa; lra|destruct (X i); lra]. }
  destruct (A a) eqn:Aa; [|exists A; split; [exact CA|rewrite Served by exact Aa; lra]].
  destruct (Rlt_dec 0 (out A f)) as [Pos|Zero]; [|exists A; split; [exact CA|lra]].
  destruct (sum_pos_term n _ Pos) as (c & Hc & Pc). cbn in Pc. destruct (A c) eqn:Ac; [lra|].
  assert (Ca : c <> a) by congruence.
  set (A' := fun j => if Nat.eqb j c then true else if Nat.eqb j a then false else A j).
  assert (Swap : forall u v : nat -> R, sum n (fun j => if A' j then u j else v j)
    = sum n (fun j => if A j then u j else v j) + (v a - u a) + (u c - v c)).
  { intros u v. rewrite <- (sum_add_at _ a), <- (sum_add_at _ c) by assumption. apply sum_ext; intros i Hi.
    unfold A'. destruct (Nat.eqb_spec i c) as [->|].
    - destruct (Nat.eqb_spec c a); [congruence|]. rewrite Ac. ring.
    - destruct (Nat.eqb_spec i a) as [->|]; [rewrite Aa|]; ring. }
  exists A'. split.
  - unfold count in *. rewrite (Swap (fun _ => 1) (fun _ => 0)). lra.
  - rewrite Served.
    + pose proof (Swap (fun _ => 0) f). specialize (Least c Hc Pc). unfold out in *. lra.
    + unfold A'. destruct (Nat.eqb_spec a c); [congruence|]. now rewrite Nat.eqb_refl.
Qed.

(* Jobs of sizes N arrive. *)
Lemma ahead_arrive f g f' g' N :
  (forall j, (j < n)%nat -> 0 <= f j /\ 0 <= g j /\ 0 <= N j) ->
  (forall j, (j < n)%nat -> 0 < N j -> g j = 0) ->
  (forall j, (j < n)%nat -> f' j = f j + N j /\ g' j = g j + N j) -> ahead f g -> ahead f' g'.
Proof.
  intros Pos New Sums H e E B. set (new := fun j => if Rlt_dec 0 (N j) then true else false).
  destruct (H e E (fun j => andb (B j) (negb (new j)))) as (A & CA & OA).
  exists (fun j => orb (A j) (andb (B j) (new j))). split.
  - apply Rle_trans with (count A + count (fun j => andb (B j) (new j))).
    + unfold count. rewrite <- sum_plus. apply sum_le; intros i Hi. destruct (A i), (B i), (new i); cbn; lra.
    + apply Rle_trans with (count (fun j => andb (B j) (negb (new j))) + count (fun j => andb (B j) (new j))); [lra|].
      unfold count. rewrite <- sum_plus. apply sum_le; intros i Hi. destruct (B i), (new i); cbn; lra.
  - apply Rle_trans with (out A f + out B N).
    + unfold out. rewrite <- sum_plus. apply sum_le; intros i Hi. destruct (Sums i Hi) as (-> & _).
      destruct (Pos i Hi) as (? & _ & ?). unfold new. destruct (Rlt_dec 0 (N i)), (A i), (B i); cbn; lra.
    + apply Rle_trans with (out (fun j => andb (B j) (negb (new j))) g + e + out B N); [lra|].
      assert (out (fun j => andb (B j) (negb (new j))) g + out B N <= out B g'); [|lra].
      unfold out. rewrite <- sum_plus. apply sum_le; intros i Hi. destruct (Sums i Hi) as (_ & ->).
      destruct (Pos i Hi) as (_ & ? & ?). specialize (New i Hi). unfold new.
      destruct (Rlt_dec 0 (N i)), (B i); cbn; try rewrite New by assumption; lra.
Qed.

(* Then no more of f than of g are positive. *)
Lemma ahead_counts f g : ahead f g -> (forall j, (j < n)%nat -> 0 <= f j /\ 0 <= g j) ->
  count (fun j => if Rlt_dec 0 (f j) then true else false) <= count (fun j => if Rlt_dec 0 (g j) then true else false).
Proof.
  intros H Pos. destruct (room_above n (fun j => if Rlt_dec 0 (f j) then f j else 1) 0) as (e & E & Room).
  { intros i Hi. destruct (Rlt_dec 0 (f i)); lra. }
  destruct (H (e / 2) ltac:(lra) (fun j => if Rlt_dec 0 (g j) then true else false)) as (A & CA & OA).
  apply Rle_trans with (count A); [|exact CA].
  assert (Z : out (fun j => if Rlt_dec 0 (g j) then true else false) g = 0).
  { apply sum_zero; intros i Hi. destruct (Pos i Hi). destruct (Rlt_dec 0 (g i)); lra. }
  apply sum_le; intros i Hi. specialize (Room i Hi). cbn in Room.
  destruct (Rlt_dec 0 (f i)) as [P|]; [|destruct (A i); lra]. destruct (A i) eqn:Ai; [lra|exfalso].
  assert (f i <= out A f); [|lra].
  pose proof (sum_term n (fun j => if A j then 0 else f j) i) as T. cbn in T. rewrite Ai in T. apply T; auto.
  intros j Hj. destruct (Pos j Hj), (A j); lra.
Qed.
End Tails.

(* What is left of the jobs that have arrived. *)
Definition load (r p : nat -> R) (w : work) (t : R) (j : nat) : R :=
  if Rle_dec (r j) t then Rmax 0 (p j - w j t) else 0.

Lemma load_nonneg r p w t j : 0 <= load r p w t j.
Proof. unfold load. destruct Rle_dec; [apply Rmax_l|lra]. Qed.

(* Finitely many times after t have a time between them and t. *)
Lemma before_next n (r : nat -> R) t : exists e, 0 < e /\ forall j, (j < n)%nat -> t < r j -> t + e <= r j.
Proof.
  destruct (room_above n (fun j => if Rlt_dec t (r j) then r j else t + 1) t) as (s & S & H).
  - intros i _. destruct (Rlt_dec t (r i)); lra.
  - exists (s - t); split; [lra|]. intros j Hj Tj. specialize (H j Hj). cbn in H. destruct (Rlt_dec t (r j)); lra.
Qed.
Lemma after_last n (r : nat -> R) t : exists e, 0 < e /\ forall j, (j < n)%nat -> r j < t -> r j <= t - e.
Proof.
  destruct (before_next n (fun j => - r j) (- t)) as (e & E & H). exists e; split; [exact E|].
  intros j Hj Tj. specialize (H j Hj ltac:(lra)). lra.
Qed.

Section Optimal.
Variables (n : nat) (r p : nat -> R) (w v : work).
Hypothesis Arrivals : forall j, (j < n)%nat -> 0 <= r j.
Hypothesis Srpt : srpt n r p w.
Hypothesis Other : schedule n r v.

Lemma load_change x s t j : schedule n r x -> (j < n)%nat -> s <= t -> (s < r j -> t < r j) ->
  0 <= load r p x s j - load r p x t j <= x j t - x j s.
Proof.
  intros S Hj St New. pose proof (work_rate n r x j s t S Hj St). unfold load.
  destruct (Rle_dec (r j) s), (Rle_dec (r j) t); unfold Rmax; repeat destruct Rle_dec; lra.
Qed.

Lemma srpt_ahead t : 0 <= t -> ahead n (load r p w t) (load r p v t).
Proof.
  pose proof (proj1 Srpt) as Sw.
  intros T. apply (real_induction (fun t => ahead n (load r p w t) (load r p v t)) (-1)); [| | |lra].
  - intros e E B. exists B. split; [lra|]. assert (Z : forall x, out n B (load r p x (-1)) = 0).
    { intros x. apply sum_zero; intros i Hi. specialize (Arrivals i Hi). unfold load.
      destruct (B i), (Rle_dec (r i) (-1)); lra. }
    rewrite !Z. lra.
  - clear t T. intros t _ H. destruct (proj2 Srpt t) as (o & Short & d & D & Serve).
    destruct (before_next n r t) as (e & E & Next).
    set (left := match o with Some a => p a - w a t | None => 1 end).
    assert (Left : 0 < left) by (destruct o as [a|]; unfold left; [destruct Short as (_ & (_ & ?) & _)|]; lra).
    exists (Rmin (Rmin d e) left). split; [repeat apply Rmin_glb_lt; assumption|]. intros u U.
    assert (u < t + d /\ u < t + e /\ u < t + left) as (Ud & Ue & Ul)
      by (unfold Rmin in U; repeat destruct Rle_dec; lra).
    assert (Old : forall j, (j < n)%nat -> t < r j -> u < r j) by (intros j Hj Tj; specialize (Next j Hj Tj); lra).
    apply (ahead_serve n (load r p w t) (load r p v t)) with (o := o) (d := u - t); auto; [lra| | | |].
    + unfold shortest, present in Short. destruct o as [a|].
      * destruct Short as (Ha & (Aa & Pa) & Least). unfold left in *. split; [exact Ha|].
        assert (La : load r p w t a = p a - w a t)
          by (unfold load; destruct Rle_dec; [apply Rmax_right|]; lra).
        rewrite La. split; [lra|]. intros i Hi Pi. unfold load in Pi |- *. destruct (Rle_dec (r i) t); [|lra].
        assert (w i t < p i) by (apply Rnot_le_lt; intros W; rewrite Rmax_left in Pi; lra).
        rewrite Rmax_right by lra. apply Least; auto.
      * intros i Hi. specialize (Short i Hi). unfold load. destruct (Rle_dec (r i) t); [|reflexivity].
        apply Rmax_left. apply Rnot_lt_le. intros P. apply Short. split; lra.
    + intros j Hj. unfold load. rewrite (Serve u j Hj) by lra.
      destruct (Rle_dec (r j) t) as [A|A].
      * destruct (Rle_dec (r j) u); [|lra]. unfold alone, shortest, present in *. destruct o as [a|].
        -- destruct (Nat.eqb_spec j a) as [->|]; [|now rewrite Rplus_0_r, Rminus_0_r].
           unfold left in *. rewrite !Rmax_right by lra. lra.
        -- now rewrite Rplus_0_r, Rminus_0_r.
      * specialize (Old j Hj). destruct (Rle_dec (r j) u); [lra|]. unfold alone, shortest, present in *.
        destruct o as [a|]; [|lra]. destruct (Nat.eqb_spec j a) as [->|]; lra.
    + intros j Hj. pose proof (load_change v t u j Other Hj ltac:(lra) (Old j Hj)).
      pose proof (load_nonneg r p v u j). lra.
    + apply Rle_trans with (sum n (fun j => v j u - v j t)); [|apply Other; lra].
      apply sum_le; intros j Hj. apply (load_change v t u j Other Hj); [lra|apply Old, Hj].
  - clear t T. intros t T Before.
    set (old := fun (x : work) j => if Rlt_dec (r j) t then Rmax 0 (p j - x j t) else 0).
    set (N := fun j => if Req_EM_T (r j) t then Rmax 0 (p j) else 0).
    apply (ahead_arrive n (old w) (old v)) with (N := N).
    + intros j Hj. unfold old, N. repeat split; [destruct Rlt_dec|destruct Rlt_dec|destruct Req_EM_T];
        try apply Rmax_l; lra.
    + intros j Hj. unfold old, N. destruct Req_EM_T, (Rlt_dec (r j) t); lra.
    + assert (L : forall x j, schedule n r x -> (j < n)%nat -> load r p x t j = old x j + N j); [|now auto].
      intros x j Sx Hj. unfold load, old, N. pose proof (proj1 Sx j t Hj) as X.
      destruct (Req_EM_T (r j) t), (Rlt_dec (r j) t), (Rle_dec (r j) t); try lra.
      rewrite X, Rminus_0_r by lra. lra.
    + intros e E B. destruct (after_last n r t) as (d & D & Last).
      set (s := Rmax (-1) (t - Rmin d (e / 2))).
      assert (S : -1 <= s < t /\ t - s <= d /\ t - s <= e / 2)
        by (unfold s, Rmax, Rmin; repeat destruct Rle_dec; lra).
      destruct (Before s ltac:(lra) (e / 2) ltac:(lra) B) as (A & CA & OA). exists A; split; [exact CA|].
      assert (Fw : out n A (old w) <= out n A (load r p w s)).
      { apply sum_le; intros j Hj. specialize (Last j Hj). pose proof (load_nonneg r p w s j).
        pose proof (work_rate n r w j s t Sw Hj ltac:(lra)). destruct (A j); [lra|]. unfold old, load in *.
        destruct (Rlt_dec (r j) t); [|lra]. destruct (Rle_dec (r j) s); [|lra].
        unfold Rmax; repeat destruct Rle_dec; lra. }
      assert (Fv : out n B (load r p v s) <= out n B (old v) + (t - s)); [|lra].
      apply Rle_trans with (out n B (old v) + sum n (fun j => v j t - v j s));
        [|apply Rplus_le_compat_l, Other; lra].
      unfold out. rewrite <- sum_plus. apply sum_le; intros j Hj. specialize (Last j Hj).
      pose proof (work_rate n r v j s t Other Hj ltac:(lra)). destruct (B j); [lra|]. unfold old, load.
      destruct (Rle_dec (r j) s), (Rlt_dec (r j) t); unfold Rmax; repeat destruct Rle_dec; lra.
Qed.

(* At each time SRPT has the fewest jobs to complete. *)
Lemma srpt_fewest t : 0 <= t ->
  sum n (fun j => if Rlt_dec t (r j) then 1 else if Rlt_dec (w j t) (p j) then 1 else 0) <=
  sum n (fun j => if Rlt_dec t (r j) then 1 else if Rlt_dec (v j t) (p j) then 1 else 0).
Proof.
  intros T. assert (Split : forall x,
    sum n (fun j => if Rlt_dec t (r j) then 1 else if Rlt_dec (x j t) (p j) then 1 else 0)
    = count n (fun j => if Rlt_dec 0 (load r p x t j) then true else false)
      + sum n (fun j => if Rlt_dec t (r j) then 1 else 0)).
  { intros x. unfold count. rewrite <- sum_plus. apply sum_ext; intros j Hj. unfold load, Rmax.
    destruct (Rle_dec (r j) t), (Rlt_dec t (r j)); repeat (destruct Rle_dec || destruct Rlt_dec); lra. }
  rewrite !Split. apply Rplus_le_compat_r, ahead_counts; [apply srpt_ahead, T|].
  intros; split; apply load_nonneg.
Qed.

Lemma srpt_optimal C D : completions n r p w C -> (forall j, (j < n)%nat -> done r p v j (D j)) -> sum n C <= sum n D.
Proof.
  intros HC HD. apply sum_by_counts.
  - intros j Hj. specialize (Arrivals j Hj). destruct (HC j Hj) as ((? & _) & _), (HD j Hj) as (? & _). lra.
  - intros t T. eapply Rle_trans; [|eapply Rle_trans; [apply (srpt_fewest t T)|]]; apply sum_le; intros j Hj;
      unfold during; (destruct (Rle_dec 0 t); [|lra]).
    + destruct (HC j Hj) as (_ & Least). destruct (Rlt_dec t (C j)), (Rlt_dec t (r j)), (Rlt_dec (w j t) (p j));
        try lra.
      assert (C j <= t); [|lra]. apply Least. split; lra.
    + destruct (HD j Hj) as (A & Dj). destruct (Rlt_dec t (D j)); [repeat destruct Rlt_dec; lra|].
      pose proof (work_rate n r v j (D j) t Other Hj ltac:(lra)). repeat destruct Rlt_dec; lra.
Qed.
End Optimal.

(* -- SRPT schedules exist -- *)

Section Existence.
Variables (n : nat) (r p : nat -> R).

(* From s on w is an SRPT schedule that has done the work b before, and it completes all jobs. *)
Definition runs_from (s : R) (b : nat -> R) (w : work) : Prop :=
  (forall j t, (j < n)%nat -> t <= s \/ t <= r j -> w j t = b j) /\
  (forall j t u, (j < n)%nat -> t <= u -> w j t <= w j u) /\
  (forall t u, t <= u -> sum n (fun j => w j u - w j t) <= u - t) /\
  (forall t, s <= t -> exists o, shortest n r p w t o /\ serves n w t o) /\
  exists T, forall j, (j < n)%nat -> done r p w j T.

Lemma alone_minus o c d j : alone o c j - alone o d j = alone o (c - d) j.
Proof. unfold alone; destruct o as [a|]; [destruct Nat.eqb|]; ring. Qed.
Lemma alone_nonneg o d j : 0 <= d -> 0 <= alone o d j.
Proof. intros; unfold alone; destruct o as [a|]; [destruct Nat.eqb|]; lra. Qed.

Lemma runs_prepend s s' o b w' : s < s' -> (forall j, (j < n)%nat -> s < r j -> s' <= r j) ->
  match o with
  | Some a => (a < n)%nat /\ r a <= s /\ s' - s <= p a - b a /\
      forall j, (j < n)%nat -> r j <= s -> b j < p j -> p a - b a <= p j - b j
  | None => forall j, (j < n)%nat -> r j <= s -> p j <= b j
  end ->
  runs_from s' (fun j => b j + alone o (s' - s) j) w' -> exists w, runs_from s b w.
Proof.
  intros S Next Least (Zero & Mono & Speed & Rule & T & Ends).
  set (w := fun j t => w' j t - alone o (s' - s - spent s s' t) j).
  assert (Before : forall j t, (j < n)%nat -> t <= s' -> w j t = b j + alone o (spent s s' t) j).
  { intros j t Hj Ht. unfold w. rewrite (Zero j t Hj (or_introl Ht)).
    rewrite <- (alone_minus o (s' - s) (spent s s' t) j). ring. }
  assert (After : forall j t, s' <= t -> w j t = w' j t).
  { intros j t Ht. unfold w. rewrite spent_after by lra. unfold Rminus. rewrite Rplus_opp_r.
    unfold alone; destruct o; [destruct Nat.eqb|]; ring. }
  exists w. repeat split.
  - intros j t Hj [Ht|Ht].
    + rewrite Before, spent_before by (auto; lra). unfold alone; destruct o; [destruct Nat.eqb|]; ring.
    + destruct (Rle_dec t s) as [L|L].
      * rewrite Before, spent_before by (auto; lra). unfold alone; destruct o; [destruct Nat.eqb|]; ring.
      * assert (Z : forall d, alone o d j = 0).
        { intros d. unfold alone. destruct o as [a|]; [|reflexivity].
          destruct (Nat.eqb_spec j a) as [->|]; [lra|reflexivity]. }
        unfold w. rewrite Zero by auto. rewrite !Z. ring.
  - intros j t u Hj Tu. unfold w. pose proof (Mono j t u Hj Tu). pose proof (spent_mono s s' t u Tu).
    pose proof (alone_minus o (s' - s - spent s s' t) (s' - s - spent s s' u) j).
    pose proof (alone_nonneg o (s' - s - spent s s' t - (s' - s - spent s s' u)) j). lra.
  - intros t u Tu. pose proof (spent_mono s s' t u Tu).
    apply Rle_trans with (sum n (fun j => w' j (Rmax u s') - w' j (Rmax t s'))
      + sum n (alone o (spent s s' u - spent s s' t))).
    + rewrite <- sum_plus. apply sum_le; intros j Hj. unfold w.
      rewrite <- (alone_minus o (spent s s' u) (spent s s' t)),
        <- (alone_minus o (s' - s) (spent s s' t)), <- (alone_minus o (s' - s) (spent s s' u)).
      assert (E : forall q, w' j (Rmax q s') = w' j q); [|rewrite !E; lra].
      intros q. unfold Rmax. destruct Rle_dec; [|reflexivity].
      rewrite (Zero j q), (Zero j s') by (auto; left; lra). reflexivity.
    + assert (M : Rmax t s' <= Rmax u s') by (unfold Rmax; repeat destruct Rle_dec; lra).
      specialize (Speed _ _ M). pose proof (alone_sum n o (spent s s' u - spent s s' t)).
      assert (Rmax u s' - Rmax t s' + (spent s s' u - spent s s' t) <= u - t); [|lra].
      unfold spent, Rmax, Rmin; repeat destruct Rle_dec; lra.
  - intros t Ht. destruct (Rle_dec s' t) as [L|L].
    + destruct (Rule t L) as (q & Short & e & E & Serve). exists q. split.
      * unfold shortest, present in *. rewrite ?After by exact L. destruct q as [a|].
        -- rewrite After by exact L. destruct Short as (Ha & Pa & Short). repeat split; try tauto.
           intros j Hj. rewrite After by exact L. now apply Short.
        -- intros j Hj. rewrite After by exact L. now apply Short.
      * exists e; split; [exact E|]. intros u j Hj U. rewrite !After by lra. now apply Serve.
    + assert (Wt : forall j, (j < n)%nat -> w j t = b j + alone o (t - s) j).
      { intros j Hj. rewrite Before by (auto; lra). unfold spent. rewrite Rmin_left, Rmax_right by lra. reflexivity. }
      exists o. split.
      * unfold shortest, present. destruct o as [a|].
        -- destruct Least as (Ha & Ra & Da & Least). rewrite Wt by exact Ha. cbn. rewrite Nat.eqb_refl.
           repeat split; auto; [lra|lra|]. intros j Hj (Rj & Pj). rewrite Wt in * by exact Hj. cbn in *.
           destruct (Nat.eqb_spec j a) as [->|]; [lra|]. specialize (Next j Hj).
           assert (r j <= s) by (apply Rnot_lt_le; intros F; specialize (Next F); lra).
           specialize (Least j Hj ltac:(assumption) ltac:(lra)). lra.
        -- intros j Hj (Rj & Pj). rewrite Wt in Pj by exact Hj. cbn in Pj. specialize (Next j Hj).
           assert (r j <= s) by (apply Rnot_lt_le; intros F; specialize (Next F); lra).
           specialize (Least j Hj ltac:(assumption)). lra.
      * exists (s' - t). split; [lra|]. intros u j Hj U. rewrite Wt, Before by (auto; lra).
        unfold spent. rewrite Rmin_left, Rmax_right by lra.
        replace (u - s) with (u - t - (s - t)) by ring. replace (t - s) with (0 - (s - t)) by ring.
        rewrite <- !alone_minus. unfold alone; destruct o; [destruct Nat.eqb|]; ring.
  - exists (Rmax T s'). intros j Hj. destruct (Ends j Hj) as (A & D). pose proof (Rmax_l T s').
    split; [lra|]. rewrite After by apply Rmax_r. specialize (Mono j T (Rmax T s') Hj). lra.
Qed.

(* 2 for a job that has yet to arrive, 1 for a job that is present. *)
Definition events (s : R) (b : nat -> R) (j : nat) : R :=
  if Rlt_dec s (r j) then 2 else if Rlt_dec (b j) (p j) then 1 else 0.

Lemma runs_step s b : (forall o s', s < s' -> (forall j, (j < n)%nat -> s < r j -> s' <= r j) ->
    (exists c, (c < n)%nat /\ events s' (fun j => b j + alone o (s' - s) j) c + 1 <= events s b c) ->
    exists w, runs_from s' (fun j => b j + alone o (s' - s) j) w) -> exists w, runs_from s b w.
Proof.
  intros Later.
  destruct (classic (exists j, (j < n)%nat /\ (r j <= s /\ b j < p j))) as [Some_present|No_one].
  - destruct (least_index n _ (fun j => p j - b j) Some_present) as (a & Ha & (Ra & Pa) & Least).
    assert (Next : exists s', s < s' <= s + (p a - b a) /\ (forall j, (j < n)%nat -> s < r j -> s' <= r j) /\
      (s' = s + (p a - b a) \/ exists c, (c < n)%nat /\ s < r c /\ s' = r c)).
    { destruct (classic (exists j, (j < n)%nat /\ (s < r j /\ r j < s + (p a - b a)))) as [New|Old].
      - destruct (least_index n _ r New) as (c & Hc & (Sc & Cc) & First). exists (r c). split; [lra|split].
        + intros j Hj Sj. destruct (Rlt_dec (r j) (s + (p a - b a))); [apply First; auto|lra].
        + right; exists c; auto.
      - exists (s + (p a - b a)). split; [lra|split; [|now left]]. intros j Hj Sj.
        apply Rnot_lt_le. intros L. apply Old. exists j; auto. }
    destruct Next as (s' & (S & Sa) & Next & End).
    destruct (Later (Some a) s' S Next) as (w & Hw).
    + destruct End as [->|(c & Hc & Sc & ->)].
      * exists a. split; [exact Ha|]. unfold events, alone. rewrite Nat.eqb_refl. repeat destruct Rlt_dec; lra.
      * exists c. split; [exact Hc|]. unfold events. repeat destruct Rlt_dec; lra.
    + apply (runs_prepend s s' (Some a) b w S Next); [|exact Hw]. repeat split; auto. lra.
  - assert (None_present : forall j, (j < n)%nat -> r j <= s -> p j <= b j).
    { intros j Hj Rj. apply Rnot_lt_le. intros L. apply No_one. exists j; auto. }
    destruct (classic (exists j, (j < n)%nat /\ s < r j)) as [New|Old].
    + destruct (least_index n _ r New) as (c & Hc & Sc & First).
      destruct (Later None (r c) Sc First) as (w & Hw).
      * exists c. split; [exact Hc|]. unfold events. repeat destruct Rlt_dec; lra.
      * now apply (runs_prepend s (r c) None b w Sc First).
    + assert (Arrived : forall j, (j < n)%nat -> r j <= s).
      { intros j Hj. apply Rnot_lt_le. intros L. apply Old. exists j; auto. }
      exists (fun j _ => b j). split; [reflexivity|split; [intros; lra|repeat split]].
      * intros t u Tu. rewrite sum_zero; [lra|intros; ring].
      * intros t _. exists None. split; [|exists 1; split; [lra|intros; cbn; ring]].
        intros j Hj (_ & L). specialize (None_present j Hj (Arrived j Hj)). lra.
      * exists s. intros j Hj. split; auto.
Qed.

Lemma runs_exist m : forall s b, sum n (events s b) <= INR m -> exists w, runs_from s b w.
Proof.
  assert (Fewer : forall s b o s', s < s' -> (forall j, (j < n)%nat -> s < r j -> s' <= r j) ->
    (exists c, (c < n)%nat /\ events s' (fun j => b j + alone o (s' - s) j) c + 1 <= events s b c) ->
    sum n (events s' (fun j => b j + alone o (s' - s) j)) + 1 <= sum n (events s b)).
  { intros s b o s' S Next (c & Hc & Less). rewrite <- (sum_add_at n _ c 1) by exact Hc. apply sum_le; intros j Hj.
    destruct (Nat.eqb_spec j c) as [->|]; [exact Less|]. specialize (Next j Hj).
    pose proof (alone_nonneg o (s' - s) j ltac:(lra)). unfold events; repeat destruct Rlt_dec; lra. }
  induction m as [|m IH]; intros s b M; apply runs_step; intros o s' S Next Less;
    specialize (Fewer s b o s' S Next Less).
  - exfalso. assert (0 <= sum n (events s' (fun j => b j + alone o (s' - s) j))); [|cbn in M; lra].
    apply sum_nonneg; intros; unfold events; repeat destruct Rlt_dec; lra.
  - apply IH. rewrite S_INR in M. lra.
Qed.

Lemma srpt_schedules : (forall j, (j < n)%nat -> 0 <= r j) -> exists C, srpt_completions n r p C.
Proof.
  intros Arrivals. destruct (runs_exist (2 * n) (-1) (fun _ => 0)) as (w & Zero & Mono & Speed & Rule & T & Ends).
  { rewrite mult_INR. cbn [INR]. rewrite Rmult_comm, <- (sum_const n). apply sum_le; intros j Hj.
    unfold events; repeat destruct Rlt_dec; lra. }
  assert (S : schedule n r w) by (repeat split; auto).
  destruct (completions_exist n r p w T S Ends) as (C & HC). exists C, w. split; [split; [exact S|]|exact HC].
  intros t. destruct (Rle_dec (-1) t) as [L|L]; [now apply Rule|]. exists None. split.
  - intros j Hj (A & _). specialize (Arrivals j Hj). lra.
  - exists (-1 - t). split; [lra|]. intros u j Hj U. rewrite !Zero by (auto; left; lra). cbn; ring.
Qed.
End Existence.

(* -- sizes that change, as those of predicted jobs do -- *)

Lemma schedule_insert n r w k c d : schedule n r w -> (k < n)%nat -> r k <= c -> 0 <= d ->
  exists w', schedule n r w' /\ (forall j t, (j < n)%nat -> w j t <= w' j (t + d)) /\ w' k (c + d) = w k c + d.
Proof.
  intros (Zero & Mono & Speed) Hk Ck D.
  set (clock := fun t => if Rle_dec t c then t else Rmax c (t - d)).
  assert (Clock : forall s t, s <= t -> 0 <= clock t - clock s <= t - s)
    by (intros s t St; unfold clock, Rmax; repeat destruct Rle_dec; lra).
  exists (fun j t => w j (clock t) + alone (Some k) (t - clock t) j). repeat split.
  - intros j t Hj Tj. assert (clock t <= t) by (unfold clock, Rmax; repeat destruct Rle_dec; lra).
    rewrite Zero by (auto; lra). unfold alone. destruct (Nat.eqb_spec j k) as [->|]; [|ring].
    unfold clock. destruct Rle_dec; lra.
  - intros j s t Hj St. specialize (Clock s t St). specialize (Mono j (clock s) (clock t) Hj).
    pose proof (alone_minus (Some k) (t - clock t) (s - clock s) j).
    pose proof (alone_nonneg (Some k) (t - clock t - (s - clock s)) j). lra.
  - intros s t St. specialize (Clock s t St). specialize (Speed (clock s) (clock t)).
    pose proof (alone_sum n (Some k) (t - clock t - (s - clock s))).
    rewrite (sum_ext n _ (fun j => (w j (clock t) - w j (clock s)) + alone (Some k) (t - clock t - (s - clock s)) j)).
    + rewrite sum_plus. lra.
    + intros j _. pose proof (alone_minus (Some k) (t - clock t) (s - clock s) j). lra.
  - intros j t Hj. assert (T : t <= clock (t + d) <= t + d)
      by (unfold clock, Rmax; repeat destruct Rle_dec; lra).
    specialize (Mono j t (clock (t + d)) Hj). pose proof (alone_nonneg (Some k) (t + d - clock (t + d)) j). lra.
  - assert (Cd : clock (c + d) = c) by (unfold clock, Rmax; repeat destruct Rle_dec; lra).
    rewrite Cd. unfold alone. rewrite Nat.eqb_refl. ring.
Qed.

(* Sizes p become q: a job completes no more than all increases later, and by its own decrease earlier. *)
Lemma sizes_change n r p q w D : schedule n r w -> (forall j, (j < n)%nat -> done r p w j (D j)) ->
  (forall j, (j < n)%nat -> 0 <= q j) -> exists w', schedule n r w' /\ forall j, (j < n)%nat ->
    done r q w' j (D j + sum n (fun i => Rmax 0 (q i - p i)) - Rmax 0 (p j - q j)).
Proof.
  intros Sw Dw Q.
  assert (H : forall k, (k <= n)%nat -> exists w', schedule n r w' /\ forall j, (j < n)%nat ->
    done r (if Nat.ltb j k then q else p) w' j
      (D j + sum k (fun i => Rmax 0 (q i - p i)) - if Nat.ltb j k then Rmax 0 (p j - q j) else 0)).
  { induction k as [|k IH]; intros Hk.
    - exists w. split; [exact Sw|]. intros j Hj. replace (D j + _ - _) with (D j) by (cbn; ring). now apply Dw.
    - destruct IH as (v & Sv & Dv); [lia|]. pose proof (Dv k ltac:(lia)) as (Ak & Pk).
      rewrite (proj2 (Nat.ltb_ge k k)) in Ak, Pk by lia. cbn [sum]. rewrite Rminus_0_r in *.
      set (s := sum k (fun i => Rmax 0 (q i - p i))) in *.
      destruct (Rle_dec (p k) (q k)) as [L|L].
      + destruct (schedule_insert n r v k (D k + s) (q k - p k) Sv ltac:(lia) Ak ltac:(lra)) as (v' & Sv' & V & Vk).
        exists v'. split; [exact Sv'|]. intros j Hj. rewrite Rmax_right by lra.
        destruct (Dv j Hj) as (Aj & Pj). destruct (Nat.eq_dec j k) as [->|].
        * rewrite (proj2 (Nat.ltb_lt k (S k))) by lia. rewrite Rmax_left by lra.
          replace (D k + _ - 0) with (D k + s + (q k - p k)) by ring. split; [lra|]. rewrite Vk. lra.
        * assert (E : Nat.ltb j (S k) = Nat.ltb j k).
          { destruct (Nat.ltb_spec j k), (Nat.ltb_spec j (S k)); auto; lia. }
          rewrite E. specialize (V j (D j + s - (if Nat.ltb j k then Rmax 0 (p j - q j) else 0)) Hj).
          replace (D j + (s + (q k - p k)) - _)
            with (D j + s - (if Nat.ltb j k then Rmax 0 (p j - q j) else 0) + (q k - p k)) by ring.
          split; lra.
      + exists v. split; [exact Sv|]. intros j Hj. rewrite Rmax_left, Rplus_0_r by lra.
        destruct (Nat.eq_dec j k) as [->|].
        * rewrite (proj2 (Nat.ltb_lt k (S k))) by lia. rewrite Rmax_right by lra. specialize (Q k Hj).
          pose proof (work_rate n r v k (r k) (D k + s) Sv Hj Ak) as Rate.
          rewrite (proj1 Sv k (r k)) in Rate by (auto; lra).
          pose proof (work_rate n r v k (D k + s - (p k - q k)) (D k + s) Sv Hj ltac:(lra)). split; lra.
        * assert (E : Nat.ltb j (S k) = Nat.ltb j k).
          { destruct (Nat.ltb_spec j k), (Nat.ltb_spec j (S k)); auto; lia. }
          rewrite E. now apply Dv. }
  destruct (H n (le_n n)) as (w' & Sw' & Dw'). exists w'. split; [exact Sw'|]. intros j Hj.
  specialize (Dw' j Hj). now rewrite (proj2 (Nat.ltb_lt j n)) in Dw' by exact Hj.
Qed.

(* -- properties of completion times -- *)

(* What is done by t is at most t. *)
Lemma completed_work n r p C t : (forall j, (j < n)%nat -> 0 <= r j /\ 0 <= p j) ->
  srpt_completions n r p C -> 0 <= t ->
  sum n (fun j => if Rle_dec (C j) t then p j else 0) <= t.
Proof.
  intros Pos (w & (S & _) & HC) T. apply Rle_trans with (sum n (fun j => w j t)).
  - apply sum_le; intros j Hj. pose proof (work_nonneg n r w j t S Hj). destruct Rle_dec; [|assumption].
    apply (done_later n r p w j (C j) t S Hj); [assumption|]. now apply HC.
  - apply work_total with r; auto. now apply Pos.
Qed.

Lemma completed_after_arrival n r p C j : srpt_completions n r p C -> (j < n)%nat -> r j <= C j.
Proof. intros (w & _ & HC) Hj. now destruct (HC j Hj) as ((A & _) & _). Qed.

(* n jobs of at least c seconds. *)
Lemma completions_at_least n r p C c : (forall j, (j < n)%nat -> 0 <= r j /\ c <= p j) -> 0 <= c ->
  srpt_completions n r p C -> c * INR n * INR n <= 2 * sum n C.
Proof.
  intros H Hc HC.
  assert (Each : forall j, (j < n)%nat -> sum n (fun i => if Rle_dec (C i) (C j) then c else 0) <= C j).
  { intros j Hj. assert (0 <= C j) by (pose proof (completed_after_arrival n r p C j HC Hj); destruct (H j Hj); lra).
    eapply Rle_trans; [|apply (completed_work n r p C (C j)); auto; intros i Hi; destruct (H i Hi); split; lra].
    apply sum_le; intros i Hi. destruct (H i Hi), Rle_dec; lra. }
  set (both := sum n (fun j => sum n (fun i => if Rle_dec (C i) (C j) then c else 0))).
  assert (Both : both <= sum n C) by (apply sum_le; exact Each).
  assert (Swap : both = sum n (fun j => sum n (fun i => if Rle_dec (C j) (C i) then c else 0))) by apply sum_swap.
  assert (c * INR n * INR n <= both + both); [|lra]. rewrite Swap at 2. unfold both. rewrite <- sum_plus.
  replace (c * INR n * INR n) with (sum n (fun _ => sum n (fun _ => c))) by (rewrite !sum_const; ring).
  apply sum_le; intros j Hj. rewrite <- sum_plus. apply sum_le; intros i Hi. repeat destruct Rle_dec; lra.
Qed.

(* Jobs that arrive together complete in the order of their sizes. *)
Lemma together_in_order n r p C s i j : (forall k, (k < n)%nat -> 0 <= p k) -> srpt_completions n r p C ->
  (i < n)%nat -> (j < n)%nat -> r i = s -> r j = s -> p i < p j -> C i < C j.
Proof.
  intros Pos (w & (S & Rule) & HC) Hi Hj Ri Rj Less. pose proof (Pos i Hi) as Pi.
  assert (Limit : forall t, s < t -> (forall u, s <= u < t -> w j u = 0) -> w j t = 0).
  { intros t T Before. pose proof (work_nonneg n r w j t S Hj) as [L|]; [exfalso|lra].
    set (u := Rmax s (t - w j t / 2)).
    assert (U : s <= u < t /\ t - u <= w j t / 2) by (unfold u, Rmax; destruct Rle_dec; lra).
    pose proof (work_rate n r w j u t S Hj ltac:(lra)). pose proof (Before u ltac:(lra)). lra. }
  assert (Idle : forall t, s <= t -> w i t < p i -> w j t = 0).
  { apply (real_induction (fun t => w i t < p i -> w j t = 0)).
    - intros _. apply (proj1 S); [exact Hj|lra].
    - intros t T H. destruct (Rlt_dec (w i t) (p i)) as [L|L].
      + destruct (Rule t) as (o & Short & e & E & Serve). exists e; split; [exact E|]. intros u U _.
        rewrite Serve, (H L) by (auto; lra). unfold alone. destruct o as [a|]; [|ring].
        destruct (Nat.eqb_spec j a) as [<-|]; [exfalso|ring]. destruct Short as (_ & _ & Least).
        specialize (Least i Hi ltac:(split; lra)). rewrite (H L) in Least.
        pose proof (work_nonneg n r w i t S Hi). lra.
      + exists 1; split; [lra|]. intros u U F. pose proof (work_rate n r w i t u S Hi ltac:(lra)). lra.
    - intros t T Before F. apply Limit; [exact T|]. intros u U. apply Before; [exact U|].
      pose proof (work_rate n r w i u t S Hi ltac:(lra)). lra. }
  destruct (HC i Hi) as ((Ai & Di) & Least), (HC j Hj) as ((Aj & Dj) & _).
  assert (Zero : w j (C i) = 0).
  { destruct (Req_dec (C i) s) as [->|]; [apply (proj1 S); [exact Hj|lra]|]. apply Limit; [lra|].
    intros u U. apply Idle; [lra|]. apply Rnot_le_lt. intros D. specialize (Least u ltac:(split; lra)). lra. }
  apply Rnot_le_lt. intros L. pose proof (work_rate n r w j (C j) (C i) S Hj L). lra.
Qed.

(* -- slots of one second, each for one job -- *)

Definition slots := nat -> option nat.
(* Seconds of job j before slot t. *)
Definition slots_of (a : slots) (j t : nat) : R := sum t (fun u => alone (a u) 1 j).
Definition slot_srpt (n : nat) (r p : nat -> R) (a : slots) : Prop :=
  forall t, shortest n r p (fun j _ => slots_of a j t) (INR t) (a t).
(* Job j is complete when its last slot ends. *)
Definition slot_completions (n : nat) (r p C : nat -> R) : Prop := exists a, slot_srpt n r p a /\
  forall j, (j < n)%nat -> exists t, C j = INR t /\ r j <= INR t /\ p j <= slots_of a j t /\
    forall u, r j <= INR u -> p j <= slots_of a j u -> (t <= u)%nat.

Lemma slots_of_mono a j t u : (t <= u)%nat -> slots_of a j t <= slots_of a j u.
Proof.
  unfold slots_of. induction 1 as [|u _ IH]; cbn [sum]; [lra|]. pose proof (alone_nonneg (a u) 1 j ltac:(lra)). lra.
Qed.

Lemma slots_total n a t : sum n (fun j => slots_of a j t) <= INR t.
Proof.
  unfold slots_of. rewrite sum_swap, <- (Rmult_1_r (INR t)), <- sum_const. apply sum_le. intros u _. apply alone_sum.
  lra.
Qed.

Lemma slot_completed_work n r p C i : slot_completions n r p C -> (i < n)%nat ->
  sum n (fun j => if Rle_dec (C j) (C i) then p j else 0) <= C i.
Proof.
  intros (a & _ & HC) Hi. destruct (HC i Hi) as (t & -> & _). eapply Rle_trans; [|apply (slots_total n a t)].
  apply sum_le. intros j Hj. destruct (HC j Hj) as (u & -> & _ & P & _). destruct Rle_dec as [L|].
  - apply INR_le in L. pose proof (slots_of_mono a j u t L). lra.
  - apply sum_nonneg. intros. apply alone_nonneg. lra.
Qed.

Section Slots.
Variables (n : nat) (r p : nat -> R).

(* Of the first k jobs that are ready the one with the least f. *)
Fixpoint choose (k : nat) (ready : nat -> bool) (f : nat -> R) : option nat :=
  match k with
  | O => None
  | S k => match choose k ready f with
           | None => if ready k then Some k else None
           | Some a => if ready k then if Rlt_dec (f k) (f a) then Some k else Some a else Some a
           end
  end.
Lemma choose_spec k ready f : match choose k ready f with
  | Some a => (a < k)%nat /\ ready a = true /\ forall j, (j < k)%nat -> ready j = true -> f a <= f j
  | None => forall j, (j < k)%nat -> ready j = false end.
Proof.
  induction k as [|k IH]; cbn [choose]; [intros; lia|]. assert (Last : forall j, (j < S k)%nat -> (j < k)%nat \/ j = k)
    by lia.
  destruct (choose k ready f) as [a|].
  - destruct IH as (Ha & Ra & Least). destruct (ready k) eqn:K; [destruct (Rlt_dec (f k) (f a))|];
      (split; [lia|split; [assumption|]]); intros j Hj Rj; destruct (Last j Hj) as [L| ->]; try congruence; try lra;
      specialize (Least j L Rj); lra.
  - destruct (ready k) eqn:K.
    + split; [lia|split; [exact K|]]. intros j Hj Rj. destruct (Last j Hj) as [L| ->]; [|lra].
      rewrite IH in Rj; [discriminate|lia].
    + intros j Hj. destruct (Last j Hj) as [L| ->]; auto.
Qed.

Definition ready (t : nat) (w : nat -> R) (j : nat) : bool :=
  if Rle_dec (r j) (INR t) then if Rlt_dec (w j) (p j) then true else false else false.
Fixpoint slot_state (t : nat) : nat -> R :=
  match t with
  | O => fun _ => 0
  | S t => fun j => slot_state t j + alone (choose n (ready t (slot_state t)) (fun j => p j - slot_state t j)) 1 j
  end.
Definition shortest_slots : slots := fun t => choose n (ready t (slot_state t)) (fun j => p j - slot_state t j).

Lemma shortest_slots_srpt : slot_srpt n r p shortest_slots.
Proof.
  assert (State : forall t j, slots_of shortest_slots j t = slot_state t j).
  { induction t as [|t IH]; intros j; [reflexivity|]. unfold slots_of in *. cbn [sum slot_state]. now rewrite IH. }
  intros t. pose proof (choose_spec n (ready t (slot_state t)) (fun j => p j - slot_state t j)) as H.
  change (choose n _ _) with (shortest_slots t) in H.
  assert (Ready : forall j, ready t (slot_state t) j = true <->
    present r p (fun j _ => slots_of shortest_slots j t) (INR t) j).
  { intros j. unfold ready, present. rewrite State. destruct (Rle_dec (r j) (INR t));
      [destruct (Rlt_dec (slot_state t j) (p j))|];
      split; intros H0; try discriminate; auto; lra. }
  unfold shortest. destruct (shortest_slots t) as [a|].
  - destruct H as (Ha & Ra & Least). split; [exact Ha|split; [now apply Ready|]]. intros j Hj Pj. rewrite !State.
    apply Least; [exact Hj|now apply Ready].
  - intros j Hj Pj. apply Ready in Pj. rewrite H in Pj by exact Hj. discriminate.
Qed.

(* All jobs are done at some time, since each gets less than a second too much. *)
Lemma slots_suffice a : slot_srpt n r p a -> exists t, forall j, (j < n)%nat -> r j <= INR t /\ p j <= slots_of a j t.
Proof.
  intros Srpt. destruct (INR_above (sum n (fun j => Rabs (r j)))) as (T0 & T0r).
  destruct (INR_above (sum n (fun j => Rabs (p j) + 1))) as (L & Lp).
  assert (Arrived : forall j t, (j < n)%nat -> (T0 <= t)%nat -> r j <= INR t).
  { intros j t Hj Ht. apply le_INR in Ht.
    pose proof (sum_term n (fun j => Rabs (r j)) j ltac:(intros; apply Rabs_pos) Hj).
    pose proof (Rle_abs (r j)). cbn in *. lra. }
  assert (Served : forall t j, (j < n)%nat -> slots_of a j t <= Rabs (p j) + 1).
  { induction t as [|t IH]; intros j Hj; unfold slots_of in *; cbn [sum]; [pose proof (Rabs_pos (p j)); lra|].
    specialize (IH j Hj). specialize (Srpt t).
    assert (One : alone (a t) 1 j = 0 \/ alone (a t) 1 j = 1 /\ slots_of a j t < p j).
    { unfold shortest in Srpt. destruct (a t) as [i|]; [|now left]. unfold alone.
      destruct (Nat.eqb_spec j i) as [->|]; [right|now left]. split; [reflexivity|apply Srpt]. }
    pose proof (Rle_abs (p j)). unfold slots_of in One. lra. }
  apply NNPP. intros N.
  assert (Busy : forall k, INR k <= sum n (fun j => slots_of a j (T0 + k))).
  { induction k as [|k IH].
    - apply sum_nonneg. intros. apply sum_nonneg. intros. apply alone_nonneg. lra.
    - rewrite Nat.add_succ_r, S_INR. unfold slots_of in *. cbn [sum]. rewrite sum_plus.
      apply Rplus_le_compat; [exact IH|].
      specialize (Srpt (T0 + k)%nat). unfold shortest, present in Srpt. destruct (a (T0 + k)%nat) as [i|].
      + unfold alone. rewrite sum_at by apply Srpt. lra.
      + exfalso. apply N. exists (T0 + k)%nat. intros j Hj. assert (A : r j <= INR (T0 + k))
          by (apply Arrived; [exact Hj|lia]).
        split; [exact A|]. apply Rnot_lt_le. intros P. now apply (Srpt j Hj). }
  specialize (Busy L). assert (sum n (fun j => slots_of a j (T0 + L)) <= sum n (fun j => Rabs (p j) + 1)); [|lra].
  apply sum_le. intros j Hj. now apply Served.
Qed.

Lemma slot_schedules : exists C, slot_completions n r p C.
Proof.
  destruct (slots_suffice _ shortest_slots_srpt) as (T & Ends). set (a := shortest_slots) in *.
  destruct (finite_choice 0 n (fun j c => exists t, c = INR t /\ r j <= INR t /\ p j <= slots_of a j t /\
    forall u, r j <= INR u -> p j <= slots_of a j u -> (t <= u)%nat)) as (C & HC).
  - intros j Hj. destruct (least_index (S T) (fun t => r j <= INR t /\ p j <= slots_of a j t) INR)
      as (t & _ & (R & P) & Least).
    + exists T. split; [lia|now apply Ends].
    + exists (INR t), t. split; [reflexivity|split; [exact R|split; [exact P|]]]. intros u Ru Pu.
      destruct (le_lt_dec u T).
      * apply INR_le, Least; [lia|split; assumption].
      * apply Nat.le_trans with T; [|lia]. apply INR_le, Least; [lia|now apply Ends].
  - exists C, a. split; [apply shortest_slots_srpt|exact HC].
Qed.
End Slots.

(* -- the claim -- *)

(* Claim asrpt/srpt (1 of 2): SRPT has the least sum of completion times of all preemptive schedules w, those that share
   the machine included. D_j is any time by which w has done job j. *)
Theorem srpt_least_sum n (r p C : nat -> R) (w : work) (D : nat -> R) : (forall j, (j < n)%nat -> 0 <= r j) ->
  srpt_completions n r p C -> schedule n r w -> (forall j, (j < n)%nat -> done r p w j (D j)) -> sum n C <= sum n D.
Proof. intros R (v & Srpt & HC) Sw Dw. now apply (srpt_optimal n r p v w). Qed.

(* Claim asrpt/srpt (2 of 2): an SRPT schedule exists, and all jobs complete. *)
Theorem srpt_exists n (r p : nat -> R) : (forall j, (j < n)%nat -> 0 <= r j) -> exists C, srpt_completions n r p C.
Proof. apply srpt_schedules. Qed.

Example srpt_least_sum_met : can_be_met srpt_least_sum.
Proof.
  intros H. assert (R : forall j, (j < 2)%nat -> 0 <= INR j) by (intros; apply pos_INR).
  destruct (srpt_exists 2 INR (fun _ => 1) R) as (C & HC). pose proof HC as (w & (Sw & _) & Cw).
  apply (H 2%nat INR (fun _ => 1) C w C R HC Sw). intros j Hj. now apply Cw.
Qed.

Example srpt_exists_met : can_be_met srpt_exists.
Proof. intros H. apply (H 2%nat INR (fun _ => 1)). intros; apply pos_INR. Qed.
