(* FFT: in each round every one of n jobs (gangs of GPUs) runs on one of k GPU types, or waits. *)
From Coq Require Import Reals Lra Lia PeanoNat Bool List Permutation Sorted Classical FunctionalExtensionality.
From Hetopt Require Import Sums Hypotheses.
Import ListNotations.
Open Scope R_scope.

(* ---- Section 2.2: moves between GPU types ---- *)

Section Moves.
Local Open Scope nat_scope.

Inductive gpu := A10 | T4.
Definition same_gpu (g h : gpu) : bool := match g, h with A10, A10 | T4, T4 => true | _, _ => false end.

(* Fig. 2 in steps of 0.1 minutes: a job arrives, and does work on the A10 or on the T4 in each step. *)
Record job := Job { arrives : nat; rate : gpu -> nat; work : nat }.
Record status := Status { work_left : nat; place : option gpu; moving_left : nat }.

(* J1 and J2 take 5 minutes on the A10, J4 14.4 minutes on the T4; J4 is 1.6 times as fast on the A10. The jobs are in
   the order of their total times on the A10. J1 and J2 never run on the T4. *)
Definition fig_2 : list job :=
  [Job 0 (fun _ => 1) 50; Job 100 (fun _ => 1) 50; Job 0 (fun g => match g with A10 => 8 | T4 => 5 end) 720].

(* A rule assigns the present jobs: true, and the GPU that the job has, to a GPU. *)
Definition rule := list (bool * option gpu) -> list (option gpu).
Fixpoint hand_out (free : list gpu) (wants : list bool) : list (option gpu) :=
  match wants, free with
  | true :: wants, g :: free => Some g :: hand_out free wants
  | _ :: wants, _ => None :: hand_out free wants
  | [], _ => []
  end.
(* Fig. 2(a): the job with the shortest total time on the A10 has the A10, the next one the T4. *)
Definition shortest_total : rule := fun jobs => hand_out [A10; T4] (map fst jobs).
(* Fig. 2(b): running jobs stay, others take the free GPUs, the A10 first. *)
Definition staying : rule := fun jobs =>
  let has g := fun j : bool * option gpu => match j with (true, Some h) => same_gpu g h | _ => false end in
  let free := filter (fun g => negb (existsb (has g) jobs)) [A10; T4] in
  let new := hand_out free (map (fun j => match j with (true, None) => true | _ => false end) jobs) in
  map (fun p => match p with ((true, Some g), _) => Some g | ((false, _), _) => None | (_, g) => g end)
    (combine jobs new).

Definition is_here (t : nat) (j : job) (s : status) : bool := (arrives j <=? t) && (0 <? work_left s).
(* A job that moves to another GPU loses 2 minutes. *)
Definition step (j : job) (s : status) (to : option gpu) : status :=
  match to with
  | None => s
  | Some g =>
      let lost := match place s with
        | Some h => if same_gpu g h then moving_left s else 20
        | None => moving_left s end in
      if 0 <? lost then Status (work_left s) (Some g) (lost - 1) else Status (work_left s - rate j g) (Some g) 0
  end.
Fixpoint state (jobs : list job) (r : rule) (t : nat) : list status :=
  match t with
  | O => map (fun j => Status (work j) None 0) jobs
  | S t =>
      let now := state jobs r t in
      let to := r (map (fun p => (is_here t (fst p) (snd p), place (snd p))) (combine jobs now)) in
      map (fun p => step (fst (fst p)) (snd (fst p)) (snd p)) (combine (combine jobs now) to)
  end.
(* The work of job i is done after c steps since its arrival, and not before. *)
Definition jct (jobs : list job) (r : rule) (i c : nat) : Prop :=
  let left_at t := work_left (nth i (state jobs r t) (Status 0 None 0)) in
  let a := arrives (nth i jobs (Job 0 (fun _ => 0) 0)) in
  0 < c /\ left_at (a + c) = 0 /\ 0 < left_at (a + c - 1).

Definition J4 : job := nth 2 fig_2 (Job 0 (fun _ => 0) 0).
(* A job on the T4 alone. *)
Definition on_T4 : rule := map (fun j : bool * option gpu => if fst j then Some T4 else None).
(* A job arrives or completes at t > 0. *)
Definition is_event (jobs : list job) (r : rule) (t : nat) : bool :=
  existsb (fun p => xorb (is_here (pred t) (fst (fst p)) (snd (fst p))) (is_here t (fst (fst p)) (snd p)))
    (combine (combine jobs (state jobs r (pred t))) (state jobs r t)).
(* Job i changes its GPU at t. *)
Definition changes_gpu (jobs : list job) (r : rule) (i t : nat) : bool :=
  let gpu_at u := place (nth i (state jobs r u) (Status 0 None 0)) in
  match gpu_at t, gpu_at (S t) with Some g, Some h => negb (same_gpu g h) | _, _ => false end.

(* Claim fft/fig-2-moving: J4, which is 1.6 times as fast on the A10, takes 25% longer than the 14.4 minutes on the T4
   if it is moved at every event. *)
Theorem fig_2_moving :
  (INR (rate J4 A10) = 1.6 * INR (rate J4 T4))%R /\ jct [J4] on_T4 0 144 /\
  (forall t, 0 < t < 180 -> changes_gpu fig_2 shortest_total 2 t = is_event fig_2 shortest_total t) /\
  jct fig_2 shortest_total 2 180 /\ (INR 180 / INR 144 = 1 + 25 / 100)%R.
Proof.
  split; [cbn; lra|]. split; [unfold jct; vm_compute; repeat split; lia|]. split.
  { assert (E : forallb (fun t => Bool.eqb (changes_gpu fig_2 shortest_total 2 t) (is_event fig_2 shortest_total t))
      (seq 1 179) = true) by (vm_compute; reflexivity).
    intros t T. rewrite forallb_forall in E. apply Bool.eqb_prop, E, in_seq. lia. }
  split; [unfold jct; vm_compute; repeat split; lia|]. rewrite !INR_IZR_INZ. cbn. lra.
Qed.

(* Claim fft/fig-2-staying: it is more effective to leave J4 on the T4 at minute 5, for J4 and in total. *)
Theorem fig_2_staying : jct fig_2 staying 2 144 /\ 144 < 180 /\
  exists a b c d, jct fig_2 shortest_total 0 a /\ jct fig_2 shortest_total 1 b /\ jct fig_2 staying 0 c /\
    jct fig_2 staying 1 d /\ c + d + 144 < a + b + 180.
Proof.
  split; [unfold jct; vm_compute; repeat split; lia|]. split; [lia|]. exists 50, 50, 50, 50.
  unfold jct. vm_compute. repeat split; lia.
Qed.

(* J4, with more work than it can do in c cycles of 10 minutes, and a job like J1 at the beginning of each cycle. *)
Definition short_job (i : nat) : job := Job (100 * i) (rate (nth 0 fig_2 J4)) (work (nth 0 fig_2 J4)).
Definition stream (c w : nat) : list job := map short_job (seq 0 c) ++ [Job 0 (rate J4) w].
(* Steps before T that are lost in moves of job i: it does no work. *)
Definition steps_moving (jobs : list job) (r : rule) (i T : nat) : nat :=
  let left_at u := work_left (nth i (state jobs r u) (Status 0 None 0)) in
  nsum T (fun u => if left_at (S u) =? left_at u then 1 else 0).

(* Before step t: the i-th short job, and J4. *)
Definition short_at (t i : nat) : status :=
  Status (50 - (t - 100 * i)) (if 100 * i <? t then Some A10 else None) 0.
Definition gpu_of_J4 (t : nat) : gpu := if t mod 100 <? 50 then T4 else A10.
Fixpoint J4_at (w t : nat) : status :=
  match t with O => Status w None 0 | S t => step (Job 0 (rate J4) w) (J4_at w t) (Some (gpu_of_J4 t)) end.

Lemma J4_long c w t : 800 * c < w -> t <= 100 * c -> 8 * (100 * c - t) < work_left (J4_at w t).
Proof.
  intros W. induction t as [|t IH]; intros T; [cbn; lia|]. specialize (IH ltac:(lia)). cbn [J4_at]. unfold step.
  destruct (0 <? _); cbn [work_left]; [lia|]. destruct (gpu_of_J4 t); cbn; lia.
Qed.

Lemma hand_out_later {A} (l : list A) free rest :
  hand_out free (map (fun _ => false) l ++ rest) = map (fun _ => None) l ++ hand_out free rest.
Proof. induction l as [|a l IH]; [reflexivity|]. destruct free; cbn; now rewrite IH. Qed.

(* The short job of the cycle has the A10 for 50 steps. *)
Lemma hand_out_stream c t : t < 100 * c -> let here i := is_here t (short_job i) (short_at t i) in
  hand_out [A10; T4] (map here (seq 0 c) ++ [true]) =
  map (fun i => if here i then Some A10 else None) (seq 0 c) ++ [Some (gpu_of_J4 t)].
Proof.
  intros T here. pose proof (Nat.div_mod t 100 ltac:(lia)) as E. pose proof (Nat.mod_upper_bound t 100 ltac:(lia)) as U.
  unfold gpu_of_J4. set (q := t / 100) in *. set (v := t mod 100) in *.
  assert (Here : forall i, here i = (i =? q) && (v <? 50)).
  { intros i. unfold here, is_here, short_job, short_at. cbn [arrives work_left].
    destruct (Nat.leb_spec (100 * i) t); destruct (Nat.eqb_spec i q); destruct (Nat.ltb_spec v 50);
      destruct (Nat.ltb_spec 0 (50 - (t - 100 * i))); cbn; lia || reflexivity. }
  assert (None1 : forall l, (In q l -> 50 <= v) -> map here l = map (fun _ => false) l /\
    map (fun i => if here i then Some A10 else None) l = map (fun _ => None) l).
  { intros l N. split; apply map_ext_in; intros i I; rewrite Here; destruct (Nat.eqb_spec i q) as [->|]; auto;
      destruct (Nat.ltb_spec v 50); auto; specialize (N I); lia. }
  destruct (Nat.ltb_spec v 50) as [L|L].
  - replace c with (q + S (c - S q)) by lia. rewrite seq_app, !map_app. cbn [seq map Nat.add].
    destruct (None1 (seq 0 q)) as (-> & ->); [rewrite in_seq; lia|].
    destruct (None1 (seq (S q) (c - S q))) as (-> & ->); [rewrite in_seq; lia|].
    rewrite Here, Nat.eqb_refl. destruct (Nat.ltb_spec v 50); [|lia]. cbn [andb].
    rewrite <- !app_assoc, hand_out_later. cbn [app hand_out]. now rewrite hand_out_later.
  - destruct (None1 (seq 0 c)) as (-> & ->); [auto|]. now rewrite hand_out_later.
Qed.

Lemma combine_maps {A B C} (f : A -> B) (g : A -> C) l x y :
  combine (map f l ++ [x]) (map g l ++ [y]) = map (fun i => (f i, g i)) l ++ [(x, y)].
Proof. induction l; cbn; [reflexivity|]. now f_equal. Qed.

Lemma stream_state c w t : 800 * c < w -> t <= 100 * c ->
  state (stream c w) shortest_total t = map (short_at t) (seq 0 c) ++ [J4_at w t].
Proof.
  intros W. induction t as [|t IH]; intros T.
  { unfold stream. cbn [state]. now rewrite map_app, map_map. }
  cbn [state J4_at]. rewrite IH by lia. unfold stream. rewrite combine_maps. unfold shortest_total.
  rewrite !map_app, !map_map. cbn [map fst snd].
  replace (is_here t _ (J4_at w t)) with true.
  2:{ pose proof (J4_long c w t W ltac:(lia)). unfold is_here. symmetry. apply Nat.ltb_lt. lia. }
  rewrite hand_out_stream, combine_maps, map_app, map_map by lia. cbn [map fst snd]. f_equal. apply map_ext. intros i.
  unfold is_here, short_at, short_job. cbn [arrives work_left].
  destruct (Nat.leb_spec (100 * i) t); destruct (Nat.ltb_spec 0 (50 - (t - 100 * i)));
    destruct (Nat.ltb_spec (100 * i) t); destruct (Nat.ltb_spec (100 * i) (S t)); cbn -[Nat.mul Nat.sub]; try lia;
    unfold step; cbn -[Nat.mul Nat.sub]; f_equal; lia.
Qed.

(* Steps left of J4's move before step t, and whether it moves in step t, v steps after the beginning of a cycle. *)
Definition left_in_cycle (v : nat) : nat := if v =? 0 then 0 else if v <=? 50 then 20 - v else 70 - v.
Definition moves_in_cycle (v : nat) : bool := (v <? 20) || ((50 <=? v) && (v <? 70)).
Definition left_of_move (t : nat) : nat := if t <=? 50 then 0 else left_in_cycle (t mod 100).
Definition moves_in (t : nat) : bool := (50 <=? t) && moves_in_cycle (t mod 100).
Definition next_in_cycle (v : nat) : nat := if v =? 99 then 0 else S v.
Definition lost_in (t : nat) : nat :=
  match t with O => 0 | S u => if same_gpu (gpu_of_J4 t) (gpu_of_J4 u) then left_of_move t else 20 end.

Lemma mod_next t : S t mod 100 = next_in_cycle (t mod 100).
Proof.
  pose proof (Nat.div_mod t 100 ltac:(lia)) as E. pose proof (Nat.mod_upper_bound t 100 ltac:(lia)) as U.
  set (q := t / 100) in *. set (v := t mod 100) in *. clearbody q v. subst t. symmetry. unfold next_in_cycle.
  destruct (Nat.eqb_spec v 99) as [->|]; [apply Nat.mod_unique with (q := S q)|apply Nat.mod_unique with (q := q)]; lia.
Qed.

Lemma lost_by_moves t : lost_in t = (if moves_in t then S (left_of_move (S t)) else 0) /\
  (moves_in t = false -> left_of_move (S t) = 0).
Proof.
  set (agree := fun (lost next : nat) (moves : bool) =>
    (lost =? if moves then S next else 0) && (moves || (next =? 0))).
  enough (A : agree (lost_in t) (left_of_move (S t)) (moves_in t) = true).
  { apply andb_prop in A as (A & B). apply Nat.eqb_eq in A. split; [exact A|]. intros M. rewrite M in B.
    now apply Nat.eqb_eq in B. }
  destruct (Nat.lt_ge_cases t 52) as [L|G].
  - assert (E : forallb (fun t => agree (lost_in t) (left_of_move (S t)) (moves_in t)) (seq 0 52) = true)
      by (vm_compute; reflexivity).
    rewrite forallb_forall in E. apply E, in_seq. lia.
  - destruct t as [|u]; [lia|].
    assert (E : forallb (fun v => let x := next_in_cycle v in
        agree (if same_gpu (if x <? 50 then T4 else A10) (if v <? 50 then T4 else A10) then left_in_cycle x else 20)
          (left_in_cycle (next_in_cycle x)) (moves_in_cycle x)) (seq 0 100) = true) by (vm_compute; reflexivity).
    rewrite forallb_forall in E. specialize (E (u mod 100)). unfold lost_in, left_of_move, moves_in, gpu_of_J4.
    rewrite (mod_next (S u)), (mod_next u).
    rewrite (leb_correct_conv 50 (S u)), (leb_correct_conv 50 (S (S u))), (leb_correct 50 (S u)) by lia.
    apply E, in_seq. pose proof (Nat.mod_upper_bound u 100 ltac:(lia)). lia.
Qed.

Lemma J4_moves w t : 0 < work_left (J4_at w t) ->
  (work_left (J4_at w (S t)) =? work_left (J4_at w t)) = moves_in t.
Proof.
  assert (Before : forall t, place (J4_at w t) = match t with O => None | S u => Some (gpu_of_J4 u) end /\
    moving_left (J4_at w t) = left_of_move t -> J4_at w (S t) = if moves_in t
      then Status (work_left (J4_at w t)) (Some (gpu_of_J4 t)) (left_of_move (S t))
      else Status (work_left (J4_at w t) - rate J4 (gpu_of_J4 t)) (Some (gpu_of_J4 t)) (left_of_move (S t))).
  { clear t. intros t (P & M). cbn [J4_at]. unfold step. rewrite P, M. destruct (lost_by_moves t) as (E & Z).
    replace (match match t with O => None | S u => Some (gpu_of_J4 u) end with
      | Some h => if same_gpu (gpu_of_J4 t) h then left_of_move t else 20 | None => left_of_move t end)
      with (lost_in t) by (destruct t; reflexivity).
    rewrite E. destruct (moves_in t); cbn [Nat.ltb Nat.leb].
    - f_equal. lia.
    - rewrite Z by auto. reflexivity. }
  assert (At : forall t, place (J4_at w t) = match t with O => None | S u => Some (gpu_of_J4 u) end /\
    moving_left (J4_at w t) = left_of_move t).
  { clear t. induction t as [|t IH]; [now split|]. rewrite (Before t IH). now destruct (moves_in t). }
  intros L. rewrite (Before t (At t)). destruct (moves_in t); cbn [work_left]; [apply Nat.eqb_refl|].
  apply Nat.eqb_neq. destruct (gpu_of_J4 t); cbn; lia.
Qed.

Lemma steps_of_cycles c : nsum (S c * 100) (fun u => if moves_in u then 1 else 0) + 20 = 40 * S c.
Proof.
  induction c as [|c IH]; [reflexivity|]. replace (S (S c) * 100) with (S c * 100 + 100) by lia. rewrite nsum_append.
  rewrite (nsum_ext 100 _ (fun v => if moves_in (100 + v) then 1 else 0)).
  2:{ intros v V. unfold moves_in. rewrite (Nat.add_comm (S c * 100)), Nat.mod_add by lia.
      replace (100 + v) with (v + 1 * 100) by lia. rewrite Nat.mod_add by lia.
      destruct (Nat.leb_spec 50 (v + S c * 100)); [|lia]. destruct (Nat.leb_spec 50 (v + 1 * 100)); [reflexivity|lia]. }
  change (nsum 100 (fun v => if moves_in (100 + v) then 1 else 0)) with 40. lia.
Qed.

(* Claim fft/wasted: if J4 is long and short jobs continuously enter, moves take 2/5 - 1 / (5 c) of its time in c
   cycles of 10 minutes: nearly 40%. *)
Theorem wasted c w : 0 < c -> 800 * c < w ->
  (INR (steps_moving (stream c w) shortest_total c (100 * c)) / INR (100 * c) = 2 / 5 - 1 / (5 * INR c))%R.
Proof.
  intros P W.
  assert (E : steps_moving (stream c w) shortest_total c (100 * c) + 20 = 40 * c).
  { destruct c as [|c]; [lia|]. rewrite <- (steps_of_cycles c), (Nat.mul_comm (S c) 100). f_equal.
    unfold steps_moving. apply nsum_ext. intros u U.
    assert (Nth : forall t, t <= 100 * S c ->
      nth (S c) (state (stream (S c) w) shortest_total t) (Status 0 None 0) = J4_at w t).
    { intros t T. rewrite stream_state, app_nth2 by (auto; rewrite map_length, seq_length; lia).
      now rewrite map_length, seq_length, Nat.sub_diag. }
    rewrite !Nth by lia. rewrite J4_moves; [reflexivity|].
    pose proof (J4_long (S c) w u W ltac:(lia)). lia. }
  apply (f_equal INR) in E. rewrite plus_INR, mult_INR in E. rewrite mult_INR.
  assert (C : (0 < INR c)%R) by (apply (lt_INR 0); lia).
  set (m := INR (steps_moving _ _ _ _)) in *. set (q := INR c) in *. clearbody m q.
  rewrite !INR_IZR_INZ in *. cbn [Z.of_nat Pos.of_succ_nat Pos.succ] in *.
  replace m with (40 * q - 20)%R by lra. field. lra.
Qed.


End Moves.

Example fig_2_moving_met : can_be_met fig_2_moving.
Proof. intros H; exact H. Qed.

Example fig_2_staying_met : can_be_met fig_2_staying.
Proof. intros H; exact H. Qed.

Example wasted_met : can_be_met wasted.
Proof. intros H. apply (H 3%nat 2401%nat); lia. Qed.

(* ---- Section 2.3: constant rates, and the schedules of Table 1 ---- *)

(* (sum sqrt W)^2 / sum r for two summands *)
Lemma two_rates a b r s : 0 < r -> 0 < s -> Rsqr (a + b) / (r + s) <= Rsqr a / r + Rsqr b / s.
Proof.
  intros R S. apply Rminus_le.
  replace (Rsqr (a + b) / (r + s) - (Rsqr a / r + Rsqr b / s)) with (- (Rsqr (a * s - b * r) / (r * s * (r + s))))
    by (unfold Rsqr; field; lra).
  assert (0 <= Rsqr (a * s - b * r) / (r * s * (r + s))); [|lra].
  apply Rmult_le_pos; [apply Rle_0_sqr|]. apply Rlt_le, Rinv_0_lt_compat. repeat apply Rmult_lt_0_compat; lra.
Qed.

(* Claim fft/cauchy-schwarz: sum_l W_l / r_l >= (sum_l sqrt W_l)^2 / sum_l r_l for all works and rates. *)
Theorem cauchy_schwarz n (W r : nat -> R) :
  (forall l, (l < n)%nat -> 0 <= W l) -> (forall l, (l < n)%nat -> 0 < r l) ->
  (sum n (fun l => sqrt (W l))) ^ 2 / sum n r <= sum n (fun l => W l / r l).
Proof.
  rewrite <- Rsqr_pow2. induction n as [|n IH]; intros Pos Rate; cbn [sum].
  - unfold Rsqr; lra.
  - assert (L : Rsqr (sum n (fun l => sqrt (W l))) / sum n r <= sum n (fun l => W l / r l)) by (apply IH; auto).
    assert (V : W n = Rsqr (sqrt (W n))) by (symmetry; apply Rsqr_sqrt; auto).
    rewrite V at 2. destruct n as [|n].
    + cbn [sum]. rewrite !Rplus_0_l. lra.
    + eapply Rle_trans; [apply two_rates; auto|lra].
      apply Rlt_le_trans with (r 0%nat); [auto with arith|].
      apply sum_term with (a := 0%nat); [intros; apply Rlt_le; auto|lia].
Qed.

Example cauchy_schwarz_met : can_be_met cauchy_schwarz.
Proof. intros H. apply (H 2%nat (fun _ => 16) (fun _ => 9)); intros; lra. Qed.

(* Table 1: identical jobs of 16 epochs, which do 8 epochs per minute on GPU0 and 1 on GPU1.
   part j g: the part of the time that job j is assigned to GPU g. *)
Definition epochs_per_minute (part : nat -> nat -> R) (j : nat) : R := 8 * part j 0%nat + part j 1%nat.

(* Gavel's allocations of n jobs: no GPU is in use for more than the whole time. *)
Record allocation (n : nat) (part : nat -> nat -> R) : Prop := {
  parts_nonneg : forall j g, (j < n)%nat -> (g < 2)%nat -> 0 <= part j g;
  whole_gpu : forall g, (g < 2)%nat -> sum n (fun j => part j g) <= 1;
  job_runs : forall j, (j < n)%nat -> 0 < epochs_per_minute part j }.
(* The rows on the time of a job, which the paper does not print. *)
Definition whole_job (n : nat) (part : nat -> nat -> R) : Prop := forall j, (j < n)%nat -> sum 2 (part j) <= 1.
Definition minutes (part : nat -> nat -> R) (j : nat) : R := 16 / epochs_per_minute part j.
(* The objective of Gavel, the sum of the completion times at constant rates. *)
Definition gavel_total (n : nat) (part : nat -> nat -> R) : R := sum n (minutes part).

Lemma rates_of_gpus n part : allocation n part -> sum n (epochs_per_minute part) <= 9.
Proof.
  intros [_ Gpu _]. unfold epochs_per_minute. rewrite sum_plus, sum_scal.
  pose proof (Gpu 0%nat ltac:(lia)). pose proof (Gpu 1%nat ltac:(lia)). lra.
Qed.

Lemma gavel_bound n part : (0 < n)%nat -> allocation n part -> 16 * Rsqr (INR n) / 9 <= gavel_total n part.
Proof.
  intros N A. pose proof (rates_of_gpus n part A) as B. destruct A as [_ _ P].
  eapply Rle_trans; [|apply cauchy_schwarz with (W := fun _ => 16); [intros; lra|auto]].
  replace (sqrt 16) with 4 by (symmetry; apply sqrt_lem_1; lra).
  rewrite sum_const. replace ((INR n * 4) ^ 2) with (16 * Rsqr (INR n)) by (unfold Rsqr; ring).
  assert (Q : 0 < sum n (epochs_per_minute part)).
  { eapply Rlt_le_trans; [apply (P 0%nat N)|]. apply sum_term; [intros; apply Rlt_le; auto|auto]. }
  apply Rmult_le_compat_l; [pose proof (Rle_0_sqr (INR n)); lra|]. apply Rinv_le_contravar; auto.
Qed.

Definition halves (part : nat -> nat -> R) : Prop := forall j g, (j < 2)%nat -> (g < 2)%nat -> part j g = / 2.

Lemma halves_total part : halves part -> minutes part 0 = 32 / 9 /\ minutes part 1 = 32 / 9.
Proof. intros H. unfold minutes, epochs_per_minute. rewrite !H by lia. split; field. Qed.

Lemma two_totals part : gavel_total 2 part = minutes part 0 + minutes part 1.
Proof. unfold gavel_total; cbn; ring. Qed.

(* Claim fft/table-1-gavel: 16 / (8 m_0 + m_1) + 16 / (8 n_0 + n_1) >= 64/9 for all parts of the time of both jobs,
   attained at m_0 = m_1 = n_0 = n_1 = 1/2 and nowhere else with m_0 + m_1 <= 1 and n_0 + n_1 <= 1. *)
Theorem table_1_gavel part : allocation 2 part ->
  64 / 9 <= gavel_total 2 part /\ (whole_job 2 part -> (gavel_total 2 part = 64 / 9 <-> halves part)).
Proof.
  intros A. pose proof (gavel_bound 2 part ltac:(lia) A) as B. cbn [INR] in B. unfold Rsqr in B.
  split; [lra|]. intros Job. split.
  2:{ intros H. rewrite two_totals. destruct (halves_total part H). lra. }
  rewrite two_totals. unfold minutes. intros E.
  pose proof (rates_of_gpus 2 part A) as S. cbn in S.
  destruct A as [Pos Gpu Rate].
  pose proof (Rate 0%nat ltac:(lia)) as R0. pose proof (Rate 1%nat ltac:(lia)) as R1.
  pose proof (Job 0%nat ltac:(lia)) as J0. pose proof (Job 1%nat ltac:(lia)) as J1.
  pose proof (Gpu 0%nat ltac:(lia)) as G0. pose proof (Gpu 1%nat ltac:(lia)) as G1. cbn in J0, J1, G0, G1.
  set (r := epochs_per_minute part 0) in *. set (s := epochs_per_minute part 1) in *.
  assert (E1 : 9 * (r + s) = 4 * (r * s)) by
    (replace (4 * (r * s)) with (64 / 9 * (r * s) * 9 / 16) by field; rewrite <- E; field; lra).
  assert (Eq : Rsqr (r - s) = (r + s) * (r + s - 9)) by (unfold Rsqr; lra).
  assert (D : r - s = 0) by (apply Rsqr_0_uniq, Rle_antisym; [rewrite Eq; nra|apply Rle_0_sqr]).
  assert (T : r + s = 9) by (rewrite D, Rsqr_0 in Eq; nra).
  unfold r, s, epochs_per_minute in D, T.
  intros j g Hj Hg. destruct j as [|[|j]], g as [|[|g]]; try lia; lra.
Qed.

Definition half_each (j g : nat) : R := / 2.

Lemma half_each_allocation : allocation 2 half_each.
Proof. split; intros; unfold epochs_per_minute, half_each; cbn; lra. Qed.

Example table_1_gavel_met : can_be_met table_1_gavel.
Proof. intros H. exact (H half_each half_each_allocation). Qed.

(* Claim fft/table-1-makespan: with the makespan as Gavel's objective, and the rows on the time of GPUs and jobs, the
   same allocation results. *)
Theorem table_1_makespan part : allocation 2 part -> whole_job 2 part ->
  32 / 9 <= Rmax (minutes part 0) (minutes part 1) /\
  (Rmax (minutes part 0) (minutes part 1) = 32 / 9 <-> halves part).
Proof.
  intros A Job. destruct (table_1_gavel part A) as (B & U). specialize (U Job). rewrite two_totals in B, U.
  pose proof (Rmax_l (minutes part 0) (minutes part 1)). pose proof (Rmax_r (minutes part 0) (minutes part 1)).
  split; [lra|]. split; intros E.
  - apply U. lra.
  - destruct (halves_total part E) as (-> & ->). apply Rmax_left; lra.
Qed.

Example table_1_makespan_met : can_be_met table_1_makespan.
Proof.
  intros H. apply (H half_each half_each_allocation). intros j Hj. unfold half_each; cbn; lra.
Qed.

(* Any schedule of n such jobs on GPU0 and GPU1, with preemption. busy j g t: the minutes that job j runs on GPU g until
   t. A GPU runs one job at a time, and a job runs on one GPU at a time. *)
Record schedule_2 (n : nat) (busy : nat -> nat -> R -> R) : Prop := {
  starts : forall j g, (j < n)%nat -> (g < 2)%nat -> busy j g 0 = 0;
  grows : forall j g s t, (j < n)%nat -> (g < 2)%nat -> 0 <= s <= t -> busy j g s <= busy j g t;
  gpu_time : forall g s t, (g < 2)%nat -> 0 <= s <= t -> sum n (fun j => busy j g t - busy j g s) <= t - s;
  job_time : forall j s t, (j < n)%nat -> 0 <= s <= t -> sum 2 (fun g => busy j g t - busy j g s) <= t - s }.
Definition epochs (busy : nat -> nat -> R -> R) (j : nat) (t : R) : R := 8 * busy j 0%nat t + busy j 1%nat t.
(* C is the completion time of job j: the first time at which 16 epochs are done. *)
Definition completes (busy : nat -> nat -> R -> R) (j : nat) (C : R) : Prop :=
  0 <= C /\ 16 <= epochs busy j C /\ forall t, 0 <= t < C -> epochs busy j t < 16.

(* Two jobs, the first of which completes first. *)
Lemma two_jobs busy C i j : schedule_2 2 busy -> (i < 2)%nat -> (j < 2)%nat -> i <> j ->
  completes busy i (C i) -> completes busy j (C j) -> C i <= C j -> 23 / 4 <= C i + C j.
Proof.
  intros [Start Grow Gpu Job] Hi Hj D (P & Ei & _) (_ & Ej & _) L. unfold epochs in *.
  pose proof (Job i 0 (C i) Hi ltac:(lra)) as A. pose proof (Job j (C i) (C j) Hj ltac:(lra)) as B.
  pose proof (Gpu 0%nat 0 (C i) ltac:(lia) ltac:(lra)) as G0.
  pose proof (Gpu 1%nat 0 (C i) ltac:(lia) ltac:(lra)) as G1. cbn in A, B, G0, G1.
  pose proof (Grow j 1%nat (C i) (C j) Hj ltac:(lia) ltac:(lra)).
  pose proof (Grow i 1%nat 0 (C i) Hi ltac:(lia) ltac:(lra)).
  destruct i as [|[|i]], j as [|[|j]]; try lia; rewrite !Start in * by lia; lra.
Qed.

(* Claim fft/table-1-optimum (1 of 2): no schedule of both jobs takes less than 23/4 minutes in total. *)
Theorem table_1_optimum busy (C : nat -> R) : schedule_2 2 busy ->
  (forall j, (j < 2)%nat -> completes busy j (C j)) -> 23 / 4 <= C 0%nat + C 1%nat.
Proof.
  intros S E. destruct (Rle_lt_dec (C 0%nat) (C 1%nat)) as [L|L].
  - apply (two_jobs busy C 0 1); auto.
  - rewrite Rplus_comm. apply (two_jobs busy C 1 0); auto; lra.
Qed.

(* The time that has passed since a, until b. *)
Definition span (a b t : R) : R := Rmin (Rmax t a) b - a.

Ltac spans := unfold span, Rmin, Rmax; repeat (destruct Rle_dec); lra.

Lemma span_split a b c t : a <= b <= c -> span a b t + span b c t = span a c t.
Proof. intros; spans. Qed.

Lemma span_grows a b s t : a <= b -> s <= t -> 0 <= span a b t - span a b s <= t - s.
Proof. intros; spans. Qed.

(* t_i, the time of job i on GPU0: before, it runs on GPU1 while job i - 1 runs on GPU0. *)
Fixpoint turn (i : nat) : R := match i with O => 2 | S i => (16 - turn i) / 8 end.
(* The i-th job starts on GPU0 when i jobs are complete. *)
Definition start (i : nat) : R := sum i turn.
(* The schedule of the paper, for any number of jobs: a job moves to GPU0 when the job before is complete. *)
Definition moving (j g : nat) : R -> R :=
  match g with O => span (start j) (start (S j)) | _ => span (start (pred j)) (start j) end.

Lemma turn_bounds i : 1 <= turn i <= 2.
Proof. induction i; cbn; lra. Qed.

Lemma start_step i : start (S i) = start i + turn i.
Proof. reflexivity. Qed.

Lemma start_order i j : (i <= j)%nat -> 0 <= start i <= start j.
Proof.
  induction 1 as [|j L IH].
  - split; [|lra]. apply sum_nonneg; intros; pose proof (turn_bounds i0); lra.
  - rewrite start_step. pose proof (turn_bounds j). lra.
Qed.

Lemma turns_total i : 9 * start (S i) = 16 * INR (S i) + turn i.
Proof. induction i; [unfold start; cbn; lra|]. rewrite start_step, (S_INR (S i)). cbn [turn]. lra. Qed.

Lemma moving_schedule n : schedule_2 n moving.
Proof.
  assert (Shorter : forall j, 0 <= start (pred j) <= start j) by (intros; apply start_order; lia).
  assert (Next : forall j, 0 <= start j <= start (S j)) by (intros; apply start_order; lia).
  split.
  - intros j [|[|g]] _ G; [| |lia]; cbn [moving]; pose proof (Shorter j); pose proof (Next j); spans.
  - intros j [|[|g]] s t _ G T; [| |lia]; cbn [moving];
      [pose proof (span_grows (start j) (start (S j)) s t)|pose proof (span_grows (start (pred j)) (start j) s t)];
      pose proof (Shorter j); pose proof (Next j); lra.
  - intros [|[|g]] s t G T; [| |lia]; cbn [moving].
    + enough (E : sum n (fun j => span (start j) (start (S j)) t - span (start j) (start (S j)) s)
        = span 0 (start n) t - span 0 (start n) s)
        by (rewrite E; apply span_grows; [apply (start_order n n); lia|lra]).
      induction n as [|n IH]; cbn [sum]; [unfold start; cbn; spans|]. rewrite IH.
      rewrite <- !(span_split 0 (start n) (start (S n))) by (pose proof (Next n); lra). ring.
    + enough (E : sum n (fun j => span (start (pred j)) (start j) t - span (start (pred j)) (start j) s)
        = span 0 (start (pred n)) t - span 0 (start (pred n)) s)
        by (rewrite E; apply span_grows; [apply (start_order (pred n) (pred n)); lia|lra]).
      induction n as [|n IH]; cbn [sum]; [unfold start; cbn; spans|]. rewrite IH. cbn [pred].
      rewrite <- !(span_split 0 (start (pred n)) (start n)) by (pose proof (Shorter n); lra). ring.
  - intros j s t _ T. cbn [sum moving].
    pose proof (span_split (start (pred j)) (start j) (start (S j)) t) as A.
    pose proof (span_split (start (pred j)) (start j) (start (S j)) s) as B.
    pose proof (span_grows (start (pred j)) (start (S j)) s t) as C.
    pose proof (Shorter j). pose proof (Next j). lra.
Qed.

Lemma moving_completes j : completes moving j (start (S j)).
Proof.
  assert (L : 0 <= start (pred j) <= start j) by (apply start_order; lia).
  pose proof (turn_bounds j) as T. pose proof (start_step j) as N.
  assert (B : 8 * turn j + (start j - start (pred j)) = 16).
  { destruct j as [|j]; [unfold start; cbn; lra|]. cbn [turn pred]. rewrite start_step. lra. }
  unfold completes, epochs; cbn [moving]. split; [lra|]. split.
  - assert (span (start j) (start (S j)) (start (S j)) = turn j) by spans.
    assert (span (start (pred j)) (start j) (start (S j)) = start j - start (pred j)) by spans. lra.
  - intros t Ht. assert (span (start j) (start (S j)) t < turn j) by spans.
    assert (span (start (pred j)) (start j) t <= start j - start (pred j)) by spans. lra.
Qed.

Example table_1_optimum_met : can_be_met table_1_optimum.
Proof.
  intros H. apply (H moving (fun j => start (S j))); [apply moving_schedule|intros; apply moving_completes].
Qed.

(* Claims fft/table-1-optimum (2 of 2), fft/table-1-jct: to run I0 on GPU0 and I1 on GPU1, and to move I1 to GPU0 when
   I0 is complete, takes 4 + (16 - 2) / 8 = 5.75 minutes in total. *)
Theorem table_1_attained : schedule_2 2 moving /\
  (forall t, 0 <= t <= 2 -> moving 0 0 t = t /\ moving 1 1 t = t) /\
  (forall t, 2 <= t <= 15 / 4 -> moving 1 0 t = t - 2) /\
  completes moving 0 2 /\ completes moving 1 (2 + (16 - 2) / 8) /\
  2 + (2 + (16 - 2) / 8) = 4 + (16 - 2) / 8 /\ 4 + (16 - 2) / 8 = 23 / 4.
Proof.
  pose proof (moving_completes 0) as A. pose proof (moving_completes 1) as B.
  assert (S1 : start 1 = 2) by (unfold start; cbn; lra).
  assert (S2 : start 2 = 2 + (16 - 2) / 8) by (unfold start; cbn; lra).
  rewrite S1 in A. rewrite S2 in B.
  split; [apply moving_schedule|]. split; [|split; [|split; [exact A|split; [exact B|lra]]]].
  - intros t T. cbn [moving pred]. rewrite S1. unfold start; cbn [sum]. split; spans.
  - intros t T. cbn [moving]. rewrite S1, S2. spans.
Qed.

Example table_1_attained_met : can_be_met table_1_attained.
Proof. intros H; exact H. Qed.

(* The least total over all schedules, and over Gavel's allocations. *)
Definition least_total (n : nat) (T : R) : Prop :=
  (exists busy C, schedule_2 n busy /\ (forall j, (j < n)%nat -> completes busy j (C j)) /\ T = sum n C) /\
  forall busy C, schedule_2 n busy -> (forall j, (j < n)%nat -> completes busy j (C j)) -> T <= sum n C.
Definition least_gavel (n : nat) (G : R) : Prop :=
  (exists part, allocation n part /\ whole_job n part /\ G = gavel_total n part) /\
  forall part, allocation n part -> whole_job n part -> G <= gavel_total n part.

Lemma least_total_two : least_total 2 (23 / 4).
Proof.
  split.
  - exists moving, (fun j => start (S j)). split; [apply moving_schedule|split; [intros; apply moving_completes|]].
    unfold start; cbn; lra.
  - intros busy C S E. pose proof (table_1_optimum busy C S E). cbn. lra.
Qed.

(* Equal rates: each of n >= 2 jobs for 1 / n of the time on each GPU. *)
Lemma least_gavel_value n : (2 <= n)%nat -> least_gavel n (16 * Rsqr (INR n) / 9).
Proof.
  intros N. assert (P : 2 <= INR n) by (apply (le_INR 2 n N)).
  split; [|intros part A _; apply gavel_bound; [lia|auto]].
  assert (I : 0 < / INR n <= / 2).
  { split; [apply Rinv_0_lt_compat; lra|apply Rinv_le_contravar; lra]. }
  exists (fun _ _ => / INR n). split; [split|split].
  - intros; lra.
  - intros g _. rewrite sum_const. right; field; lra.
  - intros j _. unfold epochs_per_minute. lra.
  - intros j _. cbn. lra.
  - unfold gavel_total, minutes, epochs_per_minute. rewrite sum_const. unfold Rsqr. field. lra.
Qed.

(* Claim fft/table-1-reduction-corrected: the optimum is 1 - (23/4) / (64/9) = 49/256, 19.1%, less than under Gavel. *)
Theorem table_1_reduction T G : least_total 2 T -> least_gavel 2 G ->
  1 - T / G = 49 / 256 /\ Rabs (49 / 256 - 191 / 1000) < 5 / 10000.
Proof.
  intros ((b & C & S & E & Is) & T2) ((p & A & J & IsG) & G2).
  destruct least_total_two as ((b' & C' & S' & E' & Is') & T1).
  destruct (least_gavel_value 2 ltac:(lia)) as ((p' & A' & J' & IsG') & G1).
  pose proof (T1 b C S E). pose proof (T2 b' C' S' E'). pose proof (G1 p A J). pose proof (G2 p' A' J').
  assert (T = 23 / 4) as -> by lra. assert (G = 16 * Rsqr (INR 2) / 9) as -> by lra.
  cbn [INR]. unfold Rsqr. split; [field|]. rewrite Rabs_pos_eq; lra.
Qed.

Example table_1_reduction_met : can_be_met table_1_reduction.
Proof. intros H. exact (H _ _ least_total_two (least_gavel_value 2 ltac:(lia))). Qed.

(* m jobs of a set need at least 16/9 (1 + 2 + ... + m) minutes in total: both GPUs do at most 9 epochs per minute. *)
Lemma total_of_set n busy C : schedule_2 n busy -> (forall j, (j < n)%nat -> completes busy j (C j)) ->
  forall m l, NoDup l -> (forall j, In j l -> (j < n)%nat) -> length l = m ->
  8 * (INR m * (INR m + 1)) <= 9 * fold_right Rplus 0 (map C l).
Proof.
  intros Sch E. induction m as [|m IH]; intros l ND In_n Len.
  { destruct l; [|discriminate]. cbn. lra. }
  (* the last job of the set to complete *)
  assert (Last : exists j, In j l /\ forall i, In i l -> C i <= C j).
  { clear - Len. assert (l <> []) as NE by (destruct l; discriminate). clear Len.
    induction l as [|a l IH]; [congruence|]. destruct l as [|b l].
    - exists a. split; [now left|]. intros i [<-|[]]. lra.
    - destruct IH as (j & J & M); [discriminate|]. destruct (Rle_lt_dec (C a) (C j)) as [L|L].
      + exists j. split; [now right|]. intros i [<-|I]; auto.
      + exists a. split; [now left|]. intros i [<-|I]; [lra|]. specialize (M i I). lra. }
  destruct Last as (j & J & M). apply in_split in J as (l1 & l2 & ->).
  assert (IH1 := IH (l1 ++ l2) (NoDup_remove_1 _ _ _ ND)).
  assert (Jn : (j < n)%nat) by (apply In_n, in_or_app; right; now left).
  rewrite map_app, fold_right_app in *. cbn [map fold_right].
  assert (Sum : forall a b, fold_right Rplus a (map C b) = fold_right Rplus 0 (map C b) + a).
  { intros a b; induction b as [|b0 b IHb]; cbn; [lra|]. rewrite IHb. lra. }
  rewrite Sum in *. rewrite app_length in *. cbn [length] in Len.
  specialize (IH1 ltac:(intros i I; apply In_n, in_or_app; apply in_app_or in I as [I|I]; [left|right; right]; auto)
    ltac:(lia)).
  (* at C j all jobs of the set are done *)
  assert (Big : 16 * INR (S m) <= 9 * C j).
  { destruct (E j Jn) as (P & _ & _). destruct Sch as [Start Grow Gpu _].
    assert (Done : sum n (fun i => if in_dec Nat.eq_dec i (l1 ++ j :: l2) then 16 else 0) <=
      sum n (fun i => epochs busy i (C j))).
    { apply sum_le. intros i Hi. destruct in_dec as [I|_].
      - destruct (E i Hi) as (Pi & D & _). specialize (M i I). unfold epochs in *.
        pose proof (Grow i 0%nat (C i) (C j) Hi ltac:(lia) ltac:(lra)).
        pose proof (Grow i 1%nat (C i) (C j) Hi ltac:(lia) ltac:(lra)). lra.
      - unfold epochs. pose proof (Grow i 0%nat 0 (C j) Hi ltac:(lia) ltac:(lra)).
        pose proof (Grow i 1%nat 0 (C j) Hi ltac:(lia) ltac:(lra)). rewrite !Start in * by (auto; lia). lra. }
    assert (Size : forall l, NoDup l -> (forall i, In i l -> (i < n)%nat) ->
      sum n (fun i => if in_dec Nat.eq_dec i l then 16 else 0) = 16 * INR (length l)).
    { clear. induction l as [|a l IH]; intros ND In_n; [rewrite sum_zero; [cbn; ring|reflexivity]|].
      inversion ND as [|? ? Out ND']; subst.
      transitivity (sum n (fun i => (if in_dec Nat.eq_dec i l then 16 else 0) + (if Nat.eqb i a then 16 else 0))).
      - apply sum_ext; intros i Hi.
        destruct (in_dec Nat.eq_dec i (a :: l)) as [I|I], (in_dec Nat.eq_dec i l), (Nat.eqb_spec i a); cbn in I; subst;
          intuition (try lra; try congruence).
      - rewrite sum_plus, sum_at, IH by (auto; intros; apply In_n; cbn; auto).
        cbn [length]. rewrite S_INR. ring. }
    rewrite Size in Done by auto. rewrite app_length in Done. cbn [length] in Done. rewrite Len in Done.
    unfold epochs in Done. rewrite sum_plus, sum_scal in Done.
    pose proof (Gpu 0%nat 0 (C j) ltac:(lia) ltac:(lra)) as G0.
    pose proof (Gpu 1%nat 0 (C j) ltac:(lia) ltac:(lra)) as G1.
    rewrite sum_minus, (sum_zero n (fun i => busy i 0%nat 0)) in G0 by (intros; apply Start; auto; lia).
    rewrite sum_minus, (sum_zero n (fun i => busy i 1%nat 0)) in G1 by (intros; apply Start; auto; lia). lra. }
  rewrite S_INR in *. lra.
Qed.

(* Claim fft/gap-twice (1 of 2): Gavel's total is less than twice that of any schedule of n such jobs. *)
Theorem gap_below_two n G busy C : (2 <= n)%nat -> least_gavel n G -> schedule_2 n busy ->
  (forall j, (j < n)%nat -> completes busy j (C j)) -> G < 2 * sum n C.
Proof.
  intros N (_ & Least) S E. assert (P : 2 <= INR n) by (apply (le_INR 2 n N)).
  pose proof (total_of_set n busy C S E n (seq 0 n) (seq_NoDup n 0)
    ltac:(intros j J; apply in_seq in J; lia) (seq_length n 0)) as B.
  assert (Eq : forall m, fold_right Rplus 0 (map C (seq 0 m)) = sum m C).
  { induction m; [reflexivity|]. rewrite seq_S, map_app, fold_right_app. cbn [sum map fold_right Nat.add].
    rewrite <- IHm. clear. induction (map C (seq 0 m)) as [|a l IH]; cbn; [ring|]. rewrite IH. ring. }
  rewrite Eq in B. destruct (least_gavel_value n N) as ((p & A & J & Is) & _).
  pose proof (Least p A J) as U. rewrite <- Is in U. unfold Rsqr in U. nra.
Qed.

Example gap_below_two_met : can_be_met gap_below_two.
Proof.
  intros H. apply (H 3%nat _ moving (fun j => start (S j)) ltac:(lia) (least_gavel_value 3 ltac:(lia))).
  - apply moving_schedule.
  - intros; apply moving_completes.
Qed.

(* Claim fft/gap-twice (2 of 2): with more such jobs Gavel's total can be up to twice as large as that of the optimum:
   there are schedules of any large number of jobs for which the quotient is above 2 - eps. *)
Theorem gap_twice eps : 0 < eps -> exists N, forall n, (N <= n)%nat -> exists G busy C,
  least_gavel n G /\ schedule_2 n busy /\ (forall j, (j < n)%nat -> completes busy j (C j)) /\
  (2 - eps) * sum n C < G.
Proof.
  intros Pos. destruct (archimed_cor1 (eps / 3)) as (N & Small & PN); [lra|].
  exists (N + 2)%nat. intros n Hn.
  exists (16 * Rsqr (INR n) / 9), moving, (fun j => start (S j)).
  split; [apply least_gavel_value; lia|split; [apply moving_schedule|split; [intros; apply moving_completes|]]].
  assert (T : forall m, 9 * sum m (fun j => start (S j)) <= 8 * (INR m * INR m) + 10 * INR m).
  { induction m; [cbn; lra|]. cbn [sum]. pose proof (turns_total m) as B. pose proof (turn_bounds m).
    rewrite S_INR in *. lra. }
  specialize (T n). assert (P0 : 0 <= sum n (fun j => start (S j))).
  { apply sum_nonneg; intros; apply (start_order (S i) (S i)); lia. }
  assert (Q : 0 < INR N) by (apply (lt_INR 0 N PN)). assert (NN : INR N + 2 <= INR n).
  { replace 2 with (INR 2) by reflexivity. rewrite <- plus_INR. apply le_INR. lia. }
  assert (Big : 3 < eps * INR n).
  { apply Rlt_le_trans with (eps * INR N); [|apply Rmult_le_compat_l; lra].
    apply Rmult_lt_compat_r with (r := INR N) in Small; auto. rewrite Rinv_l in Small; lra. }
  unfold Rsqr. destruct (Rle_lt_dec 2 eps) as [L|L]; [|nra].
  assert ((2 - eps) * sum n (fun j => start (S j)) <= 0) by nra.
  assert (0 < INR n * INR n) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

Example gap_twice_met : can_be_met gap_twice.
Proof. intros H. apply (H 1). lra. Qed.

(* ---- The program of a round: equations (1), (6) and (7) ---- *)

(* x_j^i = 1 if job j runs on type i, else 0. *)
Definition table := nat -> nat -> nat.

Section Round.
Local Open Scope nat_scope.
Variables n k : nat.                  (* jobs and GPU types *)
Variable Y : nat -> nat.              (* Y_i: GPUs of type i *)
Variable d : nat -> nat.              (* d_j: GPUs of job j *)
Variable can : nat -> nat -> Prop.    (* job j can run on type i: the memory is large enough (section 4.4.1) *)

(* sum_j d_j x_j^i *)
Definition on (x : table) (i : nat) : nat := nsum n (fun j => d j * x j i).
(* sum_i x_j^i: 0 if job j waits *)
Definition runs (x : table) (j : nat) : nat := nsum k (x j).
(* sum_i sum_j d_j x_j^i *)
Definition used (x : table) : nat := nsum k (on x).

(* eq. (1), and x_j^i = 0 where the memory is too small *)
Record packing (x : table) : Prop := {
  binary : forall j i, j < n -> i < k -> x j i = 0 \/ x j i = 1;
  one_type : forall j, j < n -> runs x j <= 1;
  capacity : forall i, i < k -> on x i <= Y i;
  memory : forall j i, j < n -> i < k -> ~ can j i -> x j i = 0 }.

(* K*: the largest number of GPUs that a plan uses *)
Definition most (K : nat) : Prop := (exists x, packing x /\ used x = K) /\ forall x, packing x -> used x <= K.
(* eq. (7) with K(t) = K* *)
Definition full (x : table) : Prop := packing x /\ exists K, most K /\ K <= used x.
(* The objective (6): sum_j sum_i c_j^i x_j^i *)
Definition cost (c : nat -> nat -> R) (x : table) : R := sum n (fun j => sum k (fun i => (c j i * INR (x j i))%R)).
(* eqs. (6), (1) and (7) *)
Definition optimal (c : nat -> nat -> R) (x : table) : Prop :=
  full x /\ forall y, full y -> (cost c x <= cost c y)%R.

(* Ties are broken by exchanges of the places of two jobs of equal demand, and by moves to types with room. *)
Definition exchanged (j l : nat) (x : table) : table := fun a => if a =? j then x l else if a =? l then x j else x a.
Definition moved (j h : nat) (x : table) : table := fun a i => if a =? j then (if i =? h then 1 else 0) else x a i.
Inductive settled (x : table) : table -> Prop :=
  | settled_none : settled x x
  | settled_exchange y j l : settled x y -> j < n -> l < n -> d j = d l ->
      (forall i, i < k -> y l i = 1 -> can j i) -> (forall i, i < k -> y j i = 1 -> can l i) ->
      settled x (exchanged j l y)
  | settled_move y j h : settled x y -> j < n -> h < k -> runs y j = 1 -> can j h -> on y h + d j <= Y h ->
      settled x (moved j h y).
(* The plan of FFT: an optimum of (6) under (1) and (7), with ties broken. *)
Definition fft_plan (c : nat -> nat -> R) (x : table) : Prop := exists y, optimal c y /\ settled y x.

Lemma used_by_jobs x : used x = nsum n (fun j => d j * runs x j).
Proof.
  unfold used, on, runs. rewrite nsum_swap. apply nsum_ext; intros. now rewrite nsum_mult.
Qed.

Lemma full_used x K : full x -> most K -> used x = K.
Proof.
  intros (P & K' & ((y & Py & Uy) & U') & L) ((z & Pz & Uz) & U). specialize (U x P). specialize (U' z Pz). lia.
Qed.

Lemma full_most x : full x <-> packing x /\ most (used x).
Proof.
  split.
  - intros F. split; [apply F|]. destruct F as (P & K & M & L). destruct M as (E & U). specialize (U x P) as Ux.
    assert (used x = K) as -> by lia. split; auto.
  - intros (P & M). split; [auto|]. exists (used x); auto.
Qed.

Lemma exchanged_keeps x j l : packing x -> j < n -> l < n -> d j = d l ->
  (forall i, i < k -> x l i = 1 -> can j i) -> (forall i, i < k -> x j i = 1 -> can l i) ->
  packing (exchanged j l x) /\ used (exchanged j l x) = used x.
Proof.
  intros [Bin One Cap Mem] J L D Cj Cl.
  assert (On : forall i, on (exchanged j l x) i = on x i).
  { intros i. destruct (Nat.eq_dec j l) as [->|N].
    - apply nsum_ext; intros a _. unfold exchanged. destruct (Nat.eqb_spec a l) as [->|]; auto.
    - set (y := fun a => if a =? j then x l else x a).
      pose proof (nsum_one n (fun a => d a * y a i) (fun a => d a * x a i) j J) as A.
      pose proof (nsum_one n (fun a => d a * exchanged j l x a i) (fun a => d a * y a i) l L) as B.
      unfold on. unfold exchanged, y in *. rewrite Nat.eqb_refl in *.
      destruct (Nat.eqb_spec l j); [lia|]. rewrite D in *.
      specialize (A ltac:(intros a _ H; destruct (Nat.eqb_spec a j); [lia|auto])).
      specialize (B ltac:(intros a _ H; destruct (Nat.eqb_spec a j), (Nat.eqb_spec a l); auto; lia)). lia. }
  split; [|apply nsum_ext; intros; apply On]. split; try (intros i I; rewrite On; auto); unfold runs, exchanged.
  - intros a i A I. destruct (a =? j), (a =? l); auto.
  - intros a A. destruct (a =? j), (a =? l); apply One; auto.
  - intros a i A I C. destruct (Nat.eqb_spec a j) as [->|]; [|destruct (Nat.eqb_spec a l) as [->|]; auto].
    + destruct (Bin l i L I); auto.
    + destruct (Bin j i J I); auto.
Qed.

Lemma moved_keeps x j h : packing x -> j < n -> h < k -> runs x j = 1 -> can j h -> on x h + d j <= Y h ->
  packing (moved j h x) /\ used (moved j h x) = used x.
Proof.
  intros [Bin One Cap Mem] J H R C Room.
  assert (Runs : forall a, runs (moved j h x) a = runs x a).
  { intros a. unfold runs, moved. destruct (Nat.eqb_spec a j) as [->|]; [|reflexivity]. now rewrite nsum_at. }
  assert (On : forall i, i < k -> on (moved j h x) i <= Y i).
  { intros i I. pose proof (nsum_one n (fun a => d a * moved j h x a i) (fun a => d a * x a i) j J) as E.
    specialize (E ltac:(intros a _ N; unfold moved; destruct (Nat.eqb_spec a j); [lia|auto])).
    unfold on in *. unfold moved at 2 in E. rewrite Nat.eqb_refl in E. specialize (Cap i I).
    destruct (Nat.eqb_spec i h) as [->|]; lia. }
  split; [|rewrite !used_by_jobs; apply nsum_ext; intros; now rewrite Runs].
  split; auto.
  - intros a i A I. unfold moved. destruct (a =? j), (i =? h); auto.
  - intros a A. rewrite Runs; auto.
  - intros a i A I N. unfold moved. destruct (Nat.eqb_spec a j) as [->|], (Nat.eqb_spec i h) as [->|]; auto. tauto.
Qed.

Lemma moved_waiting x j i : packing x -> j < n -> i < k -> can j i -> (forall h, h < k -> x j h = 0) ->
  on x i + d j <= Y i -> packing (moved j i x) /\ used (moved j i x) = used x + d j.
Proof.
  intros [Bin One Cap Mem] J I C Wait Room.
  assert (On : forall h, h < k -> on (moved j i x) h = on x h + if h =? i then d j else 0).
  { intros h H. pose proof (nsum_one n (fun a => d a * moved j i x a h) (fun a => d a * x a h) j J) as E.
    specialize (E ltac:(intros a _ N; unfold moved; destruct (Nat.eqb_spec a j); [lia|auto])).
    unfold on. unfold moved at 2 in E. rewrite Nat.eqb_refl, Wait in E by auto. destruct (h =? i); lia. }
  split; [split|].
  - intros a h A H. unfold moved. destruct (a =? j), (h =? i); auto.
  - intros a A. unfold runs, moved. destruct (a =? j); [now rewrite nsum_at|apply One; auto].
  - intros h H. rewrite On by auto. specialize (Cap h H). destruct (Nat.eqb_spec h i) as [->|]; lia.
  - intros a h A H N. unfold moved. destruct (Nat.eqb_spec a j) as [->|], (Nat.eqb_spec h i) as [->|]; auto. tauto.
  - unfold used. rewrite (nsum_ext k (on (moved j i x)) (fun h => on x h + if h =? i then d j else 0)) by apply On.
    now rewrite nsum_plus, nsum_at.
Qed.

Lemma settled_keeps x y : packing x -> settled x y -> packing y /\ used y = used x.
Proof.
  intros P S. induction S as [|y j l S (IH & U) J L D Cj Cl|y j h S (IH & U) J H R C Room]; auto; rewrite <- U.
  - apply exchanged_keeps; auto.
  - apply moved_keeps; auto.
Qed.

Lemma fft_plan_full c x : fft_plan c x -> full x.
Proof.
  intros (y & (F & _) & S). apply full_most in F as (P & M). destruct (settled_keeps y x P S) as (Q & U).
  apply full_most. rewrite U. auto.
Qed.

(* Plans are finitely many: a property that some plan has is had by a plan of least value. *)
Definition agree (x y : table) : Prop := forall j i, j < n -> i < k -> x j i = y j i.

Lemma least_plan (P : table -> Prop) (f : table -> R) :
  (forall x y, agree x y -> P x -> P y /\ f x = f y) -> (forall x, P x -> packing x) ->
  (exists x, P x) -> exists x, P x /\ forall y, P y -> (f x <= f y)%R.
Proof.
  intros Same Pack (x & Px).
  set (all := functions (fun _ => 0) (fun _ => functions 0 (fun _ => [0; 1]) k) n).
  assert (All : forall y, packing y -> exists z, In z all /\ agree z y).
  { intros y Py.
    destruct (functions_agree (fun _ => 0) (fun _ => functions 0 (fun _ => [0; 1]) k)
      (fun u v => forall i, i < k -> u i = v i) n y) as (z & Z & A);
      [|exists z; split; auto; intros j i J I; apply A; auto].
    intros j J. apply functions_complete. intros i I.
    destruct (binary y Py j i J I) as [->| ->]; cbn; auto. }
  destruct (least_of_list all P f) as (m & _ & M & Least).
  { destruct (All x (Pack x Px)) as (z & Z & A). exists z. split; auto. apply (Same x); auto.
    intros j i J I. symmetry. auto. }
  exists m. split; [auto|]. intros y Py. destruct (All y (Pack y Py)) as (z & Z & A).
  destruct (Same y z) as (Pz & ->); auto. intros j i J I. symmetry. auto.
Qed.

Lemma agree_on x y i : agree x y -> i < k -> on x i = on y i.
Proof. intros A I. apply nsum_ext; intros j J. now rewrite A. Qed.

Lemma agree_used x y : agree x y -> used x = used y.
Proof. intros A. apply nsum_ext; intros i I. now apply agree_on. Qed.

Lemma agree_runs x y j : agree x y -> j < n -> runs x j = runs y j.
Proof. intros A J. apply nsum_ext; auto. Qed.

Lemma agree_cost c x y : agree x y -> cost c x = cost c y.
Proof. intros A. apply sum_ext; intros j J. apply sum_ext; intros i I. now rewrite A. Qed.

Lemma agree_packing x y : agree x y -> packing x -> packing y.
Proof.
  intros A [Bin One Cap Mem]. split; intros.
  - rewrite <- A; auto.
  - rewrite <- (agree_runs x y); auto.
  - rewrite <- (agree_on x y); auto.
  - rewrite <- A; auto.
Qed.

Lemma agree_full x y : agree x y -> full x -> full y.
Proof.
  intros A (P & K & M & L). split; [apply (agree_packing x); auto|]. exists K. now rewrite <- (agree_used x y).
Qed.

Definition empty : table := fun _ _ => 0.

Lemma empty_packing : packing empty.
Proof.
  split; unfold empty, runs, on; intros; auto.
  - rewrite nsum_zero; auto.
  - rewrite nsum_zero; intros; lia.
Qed.

Lemma most_exists : exists K, most K.
Proof.
  destruct (least_plan packing (fun x => - INR (used x))%R) as (x & P & Least).
  - intros x y A P. rewrite (agree_used x y A). split; auto. apply (agree_packing x); auto.
  - auto.
  - exists empty. apply empty_packing.
  - exists (used x). split; [eauto|]. intros y Py. specialize (Least y Py). apply INR_le. lra.
Qed.

Lemma full_exists : exists x, full x.
Proof.
  destruct most_exists as (K & M). destruct M as ((x & P & U) & M). exists x. split; auto. exists K.
  split; [split; eauto|lia].
Qed.

Lemma optimum_exists c : exists x, optimal c x.
Proof.
  apply (least_plan full (cost c)).
  - intros x y A F. split; [apply (agree_full x); auto|now apply agree_cost].
  - intros x F. apply F.
  - apply full_exists.
Qed.

(* Claim fft/eq-1: the plans of FFT give each job one GPU type or none, no type is over-subscribed, and x_j^i = 0 where
   the memory is too small; ties are broken. *)
Theorem eq_1 c x : fft_plan c x ->
  (forall j, j < n -> (forall i, i < k -> x j i = 0) \/
     exists i, i < k /\ x j i = 1 /\ forall h, h < k -> h <> i -> x j h = 0) /\
  (forall j, j < n -> nsum k (x j) <= 1) /\
  (forall i, i < k -> nsum n (fun j => d j * x j i) <= Y i) /\
  (forall j i, j < n -> i < k -> ~ can j i -> x j i = 0).
Proof.
  intros F. destruct (fft_plan_full c x F) as ([Bin One Cap Mem] & _). repeat split; auto.
  intros j J. destruct (Nat.eq_dec (runs x j) 0) as [Z|P].
  - left. intros i I. pose proof (nsum_term k (x j) i I). unfold runs in Z. lia.
  - right. destruct (nsum_positive k (x j)) as (i & I & V); [unfold runs in P; lia|]. exists i.
    destruct (Bin j i J I) as [E|E]; [lia|]. split; auto. split; auto. intros h H N.
    pose proof (nsum_one k (x j) (fun a => if a =? h then 0 else x j a) h H) as S. cbn in S. rewrite Nat.eqb_refl in S.
    specialize (S ltac:(intros a _ A; destruct (Nat.eqb_spec a h); [lia|auto])).
    pose proof (nsum_term k (fun a => if a =? h then 0 else x j a) i I) as T. cbn in T.
    destruct (Nat.eqb_spec i h); [lia|]. specialize (One j J). unfold runs in One. lia.
Qed.

(* Claim fft/eq-7-packed: the policy's plans use exactly K* GPUs, the largest number under equation (1). *)
Theorem eq_7_packed c x K : fft_plan c x -> most K -> used x = K.
Proof. intros F M. apply (full_used x K); [apply (fft_plan_full c)|]; auto. Qed.

(* Claim fft/work-conserving: no waiting job fits on the idle GPUs. *)
Theorem work_conserving c x j i : fft_plan c x -> j < n -> i < k -> 0 < d j -> can j i ->
  (forall h, h < k -> x j h = 0) -> Y i < on x i + d j.
Proof.
  intros F J I D C Wait. destruct (Nat.lt_ge_cases (Y i) (on x i + d j)) as [|Room]; [assumption|exfalso].
  destruct (fft_plan_full c x F) as (P & K & (_ & Max) & U).
  destruct (moved_waiting x j i P J I C Wait Room) as (Py & Uy). specialize (Max _ Py). lia.
Qed.

End Round.

(* Two gangs of 2 and of 1, and three GPUs of one type: both run. *)
Lemma some_plan c : exists x, fft_plan 2 1 (fun _ => 3%nat) (fun j => S j) (fun _ _ => True) c x.
Proof.
  destruct (optimum_exists 2 1 (fun _ => 3%nat) (fun j => S j) (fun _ _ => True) c) as (x & O).
  exists x, x. split; [auto|constructor].
Qed.

Example eq_1_met : can_be_met eq_1.
Proof. intros H. destruct (some_plan (fun _ _ => 1)) as (x & F). exact (H _ _ _ _ _ _ _ F). Qed.

Example eq_7_packed_met : can_be_met eq_7_packed.
Proof.
  intros H. destruct (some_plan (fun _ _ => 1)) as (x & F).
  destruct (most_exists 2 1 (fun _ => 3%nat) (fun j => S j) (fun _ _ => True)) as (K & M).
  exact (H _ _ _ _ _ _ _ _ F M).
Qed.

(* Gangs of 2 and of 3 on three GPUs: one of them waits. *)
Example work_conserving_met : can_be_met work_conserving.
Proof.
  intros H.
  destruct (optimum_exists 2 1 (fun _ => 3%nat) (fun j => 2 + j)%nat (fun _ _ => True) (fun _ _ => 1)) as (x & O).
  pose proof O as [[[Bin One Cap Mem] _] _]. specialize (Cap 0%nat ltac:(lia)). cbn in Cap.
  assert (F : fft_plan 2 1 (fun _ => 3%nat) (fun j => 2 + j)%nat (fun _ _ => True) (fun _ _ => 1) x)
    by (exists x; split; [auto|constructor]).
  destruct (Bin 0%nat 0%nat ltac:(lia) ltac:(lia)) as [E|E].
  - apply (H 2%nat 1%nat _ _ _ _ x 0%nat 0%nat F); auto; [cbn; lia|]. intros h Hh. now replace h with 0%nat by lia.
  - apply (H 2%nat 1%nat _ _ _ _ x 1%nat 0%nat F); auto; [cbn; lia|]. intros h Hh. replace h with 0%nat by lia. lia.
Qed.

(* ---- The number of GPUs in use ---- *)

Section LargestFirst.
Local Open Scope nat_scope.
Variables n k : nat.
Variables Y d : nat -> nat.
Variable can : nat -> nat -> Prop.

(* A job is placed on the first type with room; it waits if no type has room. *)
Definition room (x : table) (j i : nat) : bool := on n d x i + d j <=? Y i.
Definition placed (x : table) (j : nat) : table :=
  match find (room x j) (seq 0 k) with Some i => moved j i x | None => x end.
Definition place_all (order : list nat) : table := fold_left placed order empty.
(* The order of the largest gangs first. *)
Definition largest_order (order : list nat) : Prop :=
  Permutation order (seq 0 n) /\ StronglySorted (fun j l => d l <= d j) order.
Definition powers_of_two : Prop := forall j, j < n -> exists e, d j = 2 ^ e.
(* Every job can use every type with enough GPUs. *)
Definition uses_every_type : Prop := forall j i, j < n -> i < k -> d j <= Y i -> can j i.

Lemma place_all_last order j : place_all (order ++ [j]) = placed (place_all order) j.
Proof. unfold place_all. now rewrite fold_left_app. Qed.

Lemma placed_other x j a : a <> j -> placed x j a = x a.
Proof.
  intros N. unfold placed. destruct find; [|reflexivity]. unfold moved. destruct (Nat.eqb_spec a j); [lia|reflexivity].
Qed.

Lemma not_placed order j i : ~ In j order -> place_all order j i = 0.
Proof.
  induction order as [|a order IH] using rev_ind; intros Out; [reflexivity|].
  rewrite place_all_last, placed_other; [apply IH|]; intros H; apply Out, in_or_app; [now left|subst; right; now left].
Qed.

(* the types in use by jobs that are placed do not change *)
Lemma placed_stays l1 l2 j i : ~ In j l2 -> place_all (l1 ++ l2) j i = place_all l1 j i.
Proof.
  induction l2 as [|a l2 IH] using rev_ind; intros Out; [now rewrite app_nil_r|].
  rewrite app_assoc, place_all_last, placed_other; [apply IH|]; intros H; apply Out, in_or_app;
    [now left|subst; right; now left].
Qed.

Lemma place_all_packing order : uses_every_type -> NoDup order -> (forall j, In j order -> j < n) ->
  packing n k Y d can (place_all order).
Proof.
  intros Every. induction order as [|j order IH] using rev_ind; intros ND In_n; [apply empty_packing|].
  assert (Out : ~ In j order).
  { intros H. apply NoDup_remove_2 in ND. apply ND. now rewrite app_nil_r. }
  assert (P : packing n k Y d can (place_all order)).
  { apply IH; [|intros; apply In_n, in_or_app; auto]. rewrite <- (app_nil_r order). now apply NoDup_remove_1 with j. }
  assert (J : j < n) by (apply In_n, in_or_app; right; now left).
  rewrite place_all_last. unfold placed. destruct find as [i|] eqn:F; [|auto].
  apply find_some in F as (I & Room). apply in_seq in I. apply Nat.leb_le in Room.
  apply moved_waiting; auto; [lia|apply Every; lia|]. intros; now apply not_placed.
Qed.

(* The GPUs of type i in use by gangs of at least D GPUs. *)
Definition large (D : nat) (x : table) (i : nat) : nat := nsum n (fun a => if D <=? d a then d a * x a i else 0).
(* The total demand of gangs of less than D GPUs. *)
Definition small (D : nat) : nat := nsum n (fun a => if D <=? d a then 0 else d a).

Lemma used_split D x : used n k d x = nsum k (large D x) + nsum n (fun a => if D <=? d a then 0 else d a * runs k x a).
Proof.
  rewrite used_by_jobs. unfold large. rewrite nsum_swap, <- nsum_plus. apply nsum_ext; intros a A.
  destruct (D <=? d a); [|now rewrite nsum_zero]. rewrite nsum_mult. unfold runs. lia.
Qed.

Lemma divide_nsum D m f : (forall a, a < m -> Nat.divide D (f a)) -> Nat.divide D (nsum m f).
Proof. induction m; intros H; cbn; [apply Nat.divide_0_r|]. apply Nat.divide_add_r; auto. Qed.

Lemma multiple_below D m v : Nat.divide D m -> m <= v -> m <= D * (v / D).
Proof.
  intros (q & ->) L. destruct (Nat.eq_dec D 0) as [->|P]; [lia|].
  rewrite (Nat.mul_comm q D) in *. apply Nat.mul_le_mono_l. now apply Nat.div_le_lower_bound.
Qed.

Lemma powers_divide a b : 2 ^ a <= 2 ^ b -> Nat.divide (2 ^ a) (2 ^ b).
Proof.
  intros L. apply Nat.pow_le_mono_r_iff in L; [|lia]. exists (2 ^ (b - a)).
  rewrite <- Nat.pow_add_r. f_equal. lia.
Qed.

(* Gangs of at least D GPUs fill a multiple of D of each type. *)
Lemma large_bound D x i : powers_of_two -> (exists e, D = 2 ^ e) -> packing n k Y d can x -> i < k ->
  Nat.divide D (large D x i) /\ large D x i <= D * (Y i / D).
Proof.
  intros Pow (e & ->) P I.
  assert (M : Nat.divide (2 ^ e) (large (2 ^ e) x i)).
  { apply divide_nsum. intros a A. destruct (Nat.leb_spec (2 ^ e) (d a)) as [L|L]; [|apply Nat.divide_0_r].
    apply Nat.divide_mul_l. destruct (Pow a A) as (b & E). rewrite E in *. now apply powers_divide. }
  split; [auto|]. apply multiple_below; auto.
  apply Nat.le_trans with (on n d x i); [|apply (capacity _ _ _ _ _ _ P); auto].
  apply nsum_le; intros a _. destruct (_ <=? d a); lia.
Qed.

Lemma used_bound D x : powers_of_two -> (exists e, D = 2 ^ e) -> packing n k Y d can x ->
  used n k d x <= nsum k (fun i => D * (Y i / D)) + small D.
Proof.
  intros Pow E P. rewrite (used_split D). apply Nat.add_le_mono.
  - apply nsum_le; intros i I. now apply large_bound.
  - apply nsum_le; intros a A. pose proof (one_type _ _ _ _ _ _ P a A). destruct (D <=? d a); nia.
Qed.

(* With the largest first all jobs run, or the bound is attained for the smallest D of a job that waits. *)
Lemma largest_first_used order : uses_every_type -> powers_of_two -> largest_order order ->
  used n k d (place_all order) = nsum n d \/
  exists j, j < n /\ used n k d (place_all order) = nsum k (fun i => d j * (Y i / d j)) + small (d j).
Proof.
  intros Every Pow (Perm & Sort). set (x := place_all order).
  assert (ND : NoDup order) by (apply (Permutation_NoDup (Permutation_sym Perm)), seq_NoDup).
  assert (In_n : forall j, In j order <-> j < n).
  { intros j. split; intros H.
    - apply (Permutation_in _ Perm), in_seq in H. lia.
    - apply (Permutation_in _ (Permutation_sym Perm)), in_seq. lia. }
  assert (P : packing n k Y d can x) by (apply place_all_packing; auto; intros; now apply In_n).
  destruct (classic (exists j, In j (seq 0 n) /\ runs k x j = 0)) as [W|All].
  2:{ left. rewrite used_by_jobs. apply nsum_ext; intros j J. pose proof (one_type _ _ _ _ _ _ P j J).
      destruct (Nat.eq_dec (runs k x j) 0) as [Z|N]; [|nia]. exfalso. apply All. exists j.
      split; [apply in_seq; lia|auto]. }
  right.
  destruct (least_of_list (seq 0 n) (fun j => runs k x j = 0) (fun j => INR (d j)) W) as (j & J & Wait & Least).
  apply in_seq in J. exists j. split; [lia|].
  destruct (Pow j ltac:(lia)) as (e & E).
  apply Nat.le_antisymm; [apply used_bound; eauto|].
  rewrite (used_split (d j)). apply Nat.add_le_mono.
  2:{ apply nsum_le; intros a A. destruct (Nat.leb_spec (d j) (d a)) as [|L]; [lia|].
      destruct (Nat.eq_dec (runs k x a) 0) as [Z|N]; [|nia]. exfalso.
      assert (Ia : In a (seq 0 n)) by (apply in_seq; lia). specialize (Least a Ia Z).
      apply INR_le in Least. lia. }
  (* when j found no type, only gangs of at least d j GPUs were placed *)
  assert (Ij : In j order) by (apply In_n; lia). apply in_split in Ij as (l1 & l2 & Order).
  assert (Before : forall a, In a l1 -> d j <= d a).
  { intros a A. rewrite Order in Sort. clear - Sort A. induction l1 as [|b l1 IH]; [destruct A|].
    inversion Sort as [|? ? Sort' F]; subst. destruct A as [<-|A]; [|now apply IH].
    rewrite Forall_forall in F. apply F, in_or_app. right; now left. }
  rewrite Order in ND.
  assert (Out1 : ~ In j l1) by (intros H; apply NoDup_remove_2 in ND; apply ND, in_or_app; now left).
  assert (Out2 : ~ In j l2) by (intros H; apply NoDup_remove_2 in ND; apply ND, in_or_app; now right).
  assert (P1 : packing n k Y d can (place_all l1)).
  { apply place_all_packing; [auto| |].
    - apply NoDup_remove_1 in ND. clear - ND. induction l1; [constructor|]. inversion ND; subst.
      constructor; auto. intros H; apply H1, in_or_app; now left.
    - intros a A. apply In_n. rewrite Order. apply in_or_app; now left. }
  assert (Full : forall i, i < k -> Y i < on n d (place_all l1) i + d j).
  { intros i I. apply Nat.nle_gt. intros R.
    assert (Runs : runs k (place_all (l1 ++ [j])) j = 0).
    { rewrite <- Wait. apply nsum_ext; intros h _. unfold x. rewrite Order.
      replace (l1 ++ j :: l2) with ((l1 ++ [j]) ++ l2) by (now rewrite <- app_assoc).
      now rewrite (placed_stays (l1 ++ [j]) l2). }
    rewrite place_all_last in Runs. unfold placed in Runs. destruct find as [h|] eqn:F.
    - apply find_some in F as (H & _). apply in_seq in H. revert Runs. unfold runs, moved.
      rewrite Nat.eqb_refl, nsum_at by lia. lia.
    - apply find_none with (x := i) in F; [|apply in_seq; lia]. apply Nat.leb_gt in F. lia. }
  apply nsum_le; intros i I.
  assert (L1 : on n d (place_all l1) i = large (d j) (place_all l1) i).
  { apply nsum_ext; intros a A. destruct (Nat.leb_spec (d j) (d a)) as [|L]; [reflexivity|].
    rewrite not_placed; [lia|]. intros H. specialize (Before a H). lia. }
  assert (L2 : large (d j) (place_all l1) i <= large (d j) x i).
  { apply nsum_le; intros a A. destruct (_ <=? d a); [|lia]. apply Nat.mul_le_mono_l.
    destruct (in_dec Nat.eq_dec a l1) as [H|H]; [|rewrite not_placed; auto; lia].
    unfold x. rewrite Order, placed_stays; [lia|]. intros H2. clear - ND H H2.
    induction l1 as [|b l1 IH]; [destruct H|]. inversion ND as [|? ? N ND']; subst.
    destruct H as [<-|H]; [apply N, in_or_app; now right|now apply IH]. }
  destruct (large_bound (d j) (place_all l1) i) as (M & _); eauto.
  specialize (Full i I). rewrite L1 in Full. destruct M as (q & Q). rewrite Q in *.
  assert (Y i / d j <= q); [|nia]. apply Nat.lt_succ_r, Nat.div_lt_upper_bound; nia.
Qed.

Lemma largest_order_exists : exists order, largest_order order.
Proof.
  enough (forall l, exists o, Permutation o l /\ StronglySorted (fun j l => d l <= d j) o) as H by apply (H (seq 0 n)).
  induction l as [|a l (o & P & S)]; [exists []; split; [auto|constructor]|].
  assert (Ins : exists o', Permutation o' (a :: o) /\ StronglySorted (fun j l => d l <= d j) o').
  { clear - S. induction o as [|b o IH]; [exists [a]; split; [auto|repeat constructor]|].
    inversion S as [|? ? S' F]; subst. destruct (le_lt_dec (d b) (d a)) as [L|L].
    - exists (a :: b :: o). split; [auto|]. constructor; [auto|]. constructor; [auto|].
      rewrite Forall_forall in *. intros c C. specialize (F c C). lia.
    - destruct (IH S') as (o' & P' & S''). exists (b :: o'). split.
      + rewrite P'. constructor.
      + constructor; auto. apply (Permutation_Forall (Permutation_sym P')). constructor; [lia|auto]. }
  destruct Ins as (o' & P' & S'). exists o'. split; [now rewrite P', P|auto].
Qed.

(* Claim fft/largest-first-powers: the largest gangs first, each on the first type with room, use K* GPUs where all
   demands are powers of two and every job can use every type with enough GPUs. *)
Theorem largest_first_powers order : uses_every_type -> powers_of_two -> largest_order order ->
  packing n k Y d can (place_all order) /\ most n k Y d can (used n k d (place_all order)).
Proof.
  intros Every Pow Ord.
  assert (P : packing n k Y d can (place_all order)).
  { destruct Ord as (Perm & _). apply place_all_packing; [auto| |].
    - apply (Permutation_NoDup (Permutation_sym Perm)), seq_NoDup.
    - intros j J. apply (Permutation_in _ Perm), in_seq in J. lia. }
  split; [auto|]. split; [eauto|]. intros y Py.
  destruct (largest_first_used order Every Pow Ord) as [->|(j & J & ->)].
  - rewrite used_by_jobs. apply nsum_le; intros j J. pose proof (one_type _ _ _ _ _ _ Py j J). nia.
  - destruct (Pow j J) as (e & E). apply used_bound; eauto.
Qed.

(* Claim fft/eq-7-powers: the printed K(t) = min(sum_i Y_i, sum_j d_j) can be met where all demands are powers of two,
   every Y_i is a multiple of the largest demand, and every job can use every type. *)
Theorem eq_7_powers D : uses_every_type -> powers_of_two ->
  (exists j, j < n /\ d j = D) -> (forall j, j < n -> d j <= D) -> (forall i, i < k -> Nat.divide D (Y i)) ->
  exists x, packing n k Y d can x /\ Nat.min (nsum k Y) (nsum n d) <= used n k d x.
Proof.
  intros Every Pow (m & M & <-) Most Mult. destruct largest_order_exists as (order & Ord).
  exists (place_all order). split; [now apply largest_first_powers|].
  destruct (largest_first_used order Every Pow Ord) as [->|(j & J & ->)]; [lia|].
  enough (nsum k Y = nsum k (fun i => d j * (Y i / d j))) by lia.
  apply nsum_ext; intros i I. destruct (Pow j J) as (e & E).
  assert (Dj : Nat.divide (d j) (Y i)).
  { apply Nat.divide_trans with (d m); [|auto]. specialize (Most j J). destruct (Pow m M) as (b & B).
    rewrite E, B in *. now apply powers_divide. }
  destruct Dj as (q & ->). rewrite Nat.div_mul; [lia|]. rewrite E. now apply Nat.pow_nonzero.
Qed.

End LargestFirst.

(* Gangs of 1, 2 and 4 GPUs. *)
Lemma three_gangs : powers_of_two 3 (fun j => Nat.pow 2 j) /\ largest_order 3 (fun j => Nat.pow 2 j) [2; 1; 0]%nat.
Proof.
  split; [intros j _; exists j; reflexivity|]. split.
  - apply Permutation_sym. change (Permutation (seq 0 3) (rev (seq 0 3))). apply Permutation_rev.
  - repeat constructor; cbn; lia.
Qed.

Example largest_first_powers_met : can_be_met largest_first_powers.
Proof.
  intros H. destruct three_gangs as (Pow & Ord).
  exact (H 3%nat 2%nat (fun i => 3 + i)%nat _ (fun _ _ => True) _ (fun _ _ _ _ _ => I) Pow Ord).
Qed.

Example eq_7_powers_met : can_be_met eq_7_powers.
Proof.
  intros H. destruct three_gangs as (Pow & _).
  apply (H 3%nat 2%nat (fun i => i * 4)%nat _ (fun _ _ => True) 4%nat (fun _ _ _ _ _ => I) Pow).
  - exists 2%nat. split; [lia|reflexivity].
  - intros j J. change 4%nat with (2 ^ 2)%nat. apply Nat.pow_le_mono_r; lia.
  - intros i _. now exists i.
Qed.

(* Claim fft/packing-partition: positive integers d_1, ..., d_n <= h with sum 2 h can be partitioned into two sets of
   equal sum if and only if K* = h for gangs of these demands on h GPUs of one type. *)
Theorem packing_partition n (d : nat -> nat) h :
  (forall j, (j < n)%nat -> (0 < d j <= h)%nat) -> nsum n d = (2 * h)%nat ->
  ((exists part : nat -> bool,
      nsum n (fun j => if part j then d j else O) = nsum n (fun j => if part j then O else d j)) <->
   most n 1 (fun _ => h) d (fun _ _ => True) h).
Proof.
  intros Pos Total.
  assert (Both : forall part : nat -> bool,
    (nsum n (fun j => if part j then d j else O) + nsum n (fun j => if part j then O else d j) = 2 * h)%nat).
  { intros part. rewrite <- Total, <- nsum_plus. apply nsum_ext; intros j _. destruct (part j); lia. }
  split.
  - intros (part & Equal). specialize (Both part). set (x := fun j i : nat => if part j then 1%nat else O).
    assert (Sum : on n d x 0 = h).
    { transitivity (nsum n (fun j => if part j then d j else O)); [|lia].
      apply nsum_ext; intros j _. unfold x. destruct (part j); lia. }
    split.
    + exists x. split; [|unfold used; cbn; lia]. split.
      * intros j i _ _. unfold x. destruct (part j); auto.
      * intros j _. unfold runs, x. cbn. destruct (part j); lia.
      * intros i I. replace i with 0%nat by lia. lia.
      * intros j i _ _ N. destruct N. exact I.
    + intros y [_ _ Cap _]. specialize (Cap 0%nat ltac:(lia)). unfold used. cbn. lia.
  - intros ((x & [Bin _ _ _] & Use) & _). exists (fun j => Nat.eqb (x j 0%nat) 1).
    specialize (Both (fun j => Nat.eqb (x j 0%nat) 1)). unfold used in Use. cbn in Use.
    enough (nsum n (fun j => if Nat.eqb (x j 0%nat) 1 then d j else O) = h) by lia.
    rewrite <- Use. apply nsum_ext; intros j J. destruct (Bin j 0%nat J ltac:(lia)) as [-> | ->]; cbn; lia.
Qed.

Example packing_partition_met : can_be_met packing_partition.
Proof. intros H. apply (H 3%nat (fun j => S j) 3%nat); [intros; lia|reflexivity]. Qed.

(* ---- Costs: equations (2) to (4) and (6) ---- *)

(* eq. (3): phi = (t - a) theta / W + d W / theta *)
Definition phi (age d W theta : R) : R := age * theta / W + d * W / theta.
(* eq. (6): phi + s - rho theta / unit, with unit = 1 as printed, and unit = W for theta in fractions of the job *)
Definition coefficient (unit age d W theta s rho : R) : R := phi age d W theta + s - rho * (theta / unit).

(* Claim fft/age-term-equal: the term (t - a_j) theta_j^i / W_j gives priority to the job with the larger completion
   time W_j / theta_j^i among jobs of equal age t > a_j. *)
Theorem age_term_equal age W theta W' theta' : 0 < age -> 0 < W -> 0 < theta -> 0 < W' -> 0 < theta' ->
  (age * theta / W < age * theta' / W' <-> W' / theta' < W / theta).
Proof.
  intros A PW PT PW' PT'.
  assert (Q : forall u v, 0 < u -> 0 < v -> age * v / u = age / (u / v)) by (intros; field; lra).
  assert (P : forall u v, 0 < u -> 0 < v -> 0 < u / v) by (intros; apply Rdiv_lt_0_compat; auto).
  rewrite !Q by auto. pose proof (P W theta PW PT) as P1. pose proof (P W' theta' PW' PT') as P2.
  split; intros H.
  - apply Rmult_lt_reg_l with (age / (W / theta) / (W' / theta')); [repeat apply Rdiv_lt_0_compat; auto|].
    replace (age / (W / theta) / (W' / theta') * (W' / theta')) with (age / (W / theta)) by (field; lra).
    replace (age / (W / theta) / (W' / theta') * (W / theta)) with (age / (W' / theta')) by (field; lra). auto.
  - apply Rmult_lt_compat_l; [auto|]. apply Rinv_lt_contravar; [apply Rmult_lt_0_compat|]; auto.
Qed.

Example age_term_equal_met : can_be_met age_term_equal.
Proof. intros H. apply (H 1 2 1 1 1); lra. Qed.

(* Claim fft/eq-3-order: let a job on two types, or two jobs of equal demand d, age and compensation rho (in fractions
   of the job), take p < q rounds. Then p rounds cost less if and only if age - rho < d p q, and the same if and only
   if age - rho = d p q. Equation (3) is rho = 0. *)
Theorem eq_3_order age d rho W theta W' theta' :
  0 < W -> 0 < theta -> 0 < W' -> 0 < theta' -> W / theta < W' / theta' ->
  (coefficient W age d W theta 0 rho < coefficient W' age d W' theta' 0 rho <->
     age - rho < d * (W / theta) * (W' / theta')) /\
  (coefficient W age d W theta 0 rho = coefficient W' age d W' theta' 0 rho <->
     age - rho = d * (W / theta) * (W' / theta')).
Proof.
  intros PW PT PW' PT'. set (p := W / theta). set (q := W' / theta'). intros Less.
  assert (0 < p) by (apply Rdiv_lt_0_compat; auto). assert (0 < q) by (apply Rdiv_lt_0_compat; auto).
  assert (D : coefficient W' age d W' theta' 0 rho - coefficient W age d W theta 0 rho =
    (q - p) / (p * q) * (d * p * q - (age - rho))) by (unfold coefficient, phi, p, q; field; repeat split; nra).
  assert (0 < (q - p) / (p * q)) by (apply Rdiv_lt_0_compat; [|apply Rmult_lt_0_compat]; lra).
  set (f := (q - p) / (p * q)) in *. set (g := d * p * q - (age - rho)) in *.
  assert (G : g = d * p * q - (age - rho)) by reflexivity. clearbody f g.
  split; split; intros H2.
  - assert (0 < g); [|lra]. apply Rmult_lt_reg_l with f; auto. lra.
  - assert (0 < f * g) by (apply Rmult_lt_0_compat; lra). lra.
  - assert (g = 0); [|lra]. apply Rmult_eq_reg_l with f; lra.
  - assert (g = 0) as E by lra. rewrite E in D. lra.
Qed.

Example eq_3_order_met : can_be_met eq_3_order.
Proof. intros H. apply (H 5 1 0 1 1 2 1); lra. Qed.

(* Claim fft/eq-3-fewer-cost: of two jobs of equal age and processing time the job with fewer GPUs costs less. *)
Theorem eq_3_fewer_cost age (d d' : nat) W theta W' theta' : 0 < W -> 0 < theta -> 0 < W' -> 0 < theta' ->
  W / theta = W' / theta' -> (d < d')%nat -> phi age (INR d) W theta < phi age (INR d') W' theta'.
Proof.
  intros PW PT PW' PT' E L. apply lt_INR in L. unfold phi.
  assert (P : 0 < W / theta) by (apply Rdiv_lt_0_compat; auto).
  replace (age * theta / W) with (age / (W / theta)) by (field; lra).
  replace (age * theta' / W') with (age / (W' / theta')) by (field; lra).
  unfold Rdiv in *. rewrite !Rmult_assoc, E in *. apply Rplus_lt_compat_l, Rmult_lt_compat_r; auto.
Qed.

Example eq_3_fewer_cost_met : can_be_met eq_3_fewer_cost.
Proof. intros H. apply (H 3 1%nat 2%nat 1 1 1 1); auto; lra. Qed.

(* Claim fft/eq-3-service: of jobs that have just arrived, the job with the smallest total service d_j W_j / theta_j^i
   costs least. *)
Theorem eq_3_service n k (d : nat -> nat) (W : nat -> R) (theta : nat -> nat -> R) j i :
  (j < n)%nat -> (i < k)%nat -> 0 < theta j i ->
  let service l h := INR (d l) * W l / theta l h in
  let cost l h := phi 0 (INR (d l)) (W l) (theta l h) in
  ((forall l h, (l < n)%nat -> (h < k)%nat -> 0 < theta l h -> service j i <= service l h) <->
   (forall l h, (l < n)%nat -> (h < k)%nat -> 0 < theta l h -> cost j i <= cost l h)).
Proof.
  intros _ _ _ service cost. unfold service, cost.
  assert (E : forall a b c, phi 0 a b c = a * b / c) by (intros; unfold phi, Rdiv; ring).
  split; intros H l h L K P; specialize (H l h L K P); rewrite !E in *; auto.
Qed.

Example eq_3_service_met : can_be_met eq_3_service.
Proof. intros H. apply (H 2%nat 1%nat (fun j => S j) (fun _ => 1) (fun _ _ => 1) 0%nat 0%nat); lia || lra. Qed.

(* The coefficient of x_j^i in (3). *)
Definition jct_cost (age : nat -> R) (d : nat -> nat) (W : nat -> R) (theta : nat -> nat -> R) (j i : nat) : R :=
  phi (age j) (INR (d j)) (W j) (theta j i).

(* Claim fft/eq-3-nobody: without the constraint (7), the only solution of (3) runs no job. *)
Theorem eq_3_no_job n k Y d (can : nat -> nat -> Prop) (age W : nat -> R) (theta : nat -> nat -> R) x :
  (forall j, (j < n)%nat -> 0 <= age j /\ 0 < W j /\ (0 < d j)%nat) ->
  (forall j i, (j < n)%nat -> (i < k)%nat -> can j i -> 0 < theta j i) ->
  packing n k Y d can x ->
  ((forall y, packing n k Y d can y -> cost n k (jct_cost age d W theta) x <= cost n k (jct_cost age d W theta) y) <->
   (forall j i, (j < n)%nat -> (i < k)%nat -> x j i = 0%nat)).
Proof.
  intros Job Theta P. set (c := jct_cost age d W theta).
  assert (Nonneg : forall y, packing n k Y d can y -> forall j i, (j < n)%nat -> (i < k)%nat ->
    0 <= c j i * INR (y j i) /\ (c j i * INR (y j i) <= 0 -> y j i = 0%nat)).
  { intros y Py j i J I. destruct (binary _ _ _ _ _ _ Py j i J I) as [E|E].
    { rewrite E. cbn. split; [lra|auto]. }
    assert (T : 0 < theta j i).
    { apply Theta; auto. apply NNPP. intros N. rewrite (memory _ _ _ _ _ _ Py j i J I N) in E. lia. }
    destruct (Job j J) as (A & W0 & D). apply lt_INR in D. cbn in D.
    assert (0 <= age j * theta j i / W j).
    { apply Rmult_le_pos; [apply Rmult_le_pos; lra|apply Rlt_le, Rinv_0_lt_compat; auto]. }
    assert (0 < INR (d j) * W j / theta j i) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; auto).
    rewrite E. cbn. unfold c, jct_cost, phi. split; [lra|]. intros; lra. }
  assert (Zero : cost n k c empty = 0).
  { apply sum_zero; intros j _. apply sum_zero; intros i _. cbn. ring. }
  split.
  - intros Least j i J I. specialize (Least empty (empty_packing n k Y d can)). rewrite Zero in Least.
    apply (Nonneg x P); auto. eapply Rle_trans; [|exact Least].
    eapply Rle_trans; [|apply sum_term with (a := j); auto].
    + apply (sum_term k (fun i => c j i * INR (x j i)) i); auto. intros; now apply Nonneg.
    + intros l L. apply sum_nonneg; intros. now apply Nonneg.
  - intros Idle y Py. replace (cost n k c x) with 0.
    + apply sum_nonneg; intros j J. apply sum_nonneg; intros i I. now apply Nonneg.
    + symmetry. apply sum_zero; intros j J. apply sum_zero; intros i I. rewrite Idle by auto. cbn. ring.
Qed.

Example eq_3_no_job_met : can_be_met eq_3_no_job.
Proof.
  intros H.
  apply (H 2%nat 1%nat (fun _ => 2%nat) (fun _ => 1%nat) (fun _ _ => True) (fun _ => 1) (fun _ => 1) (fun _ _ => 1)
    empty); [intros; split; [|split]; lra || lia|intros; lra|apply empty_packing].
Qed.

(* The round t runs the job on the types i with x t i = 1: sum_i x^i(t) theta^i. *)
Definition served (k : nat) (theta : nat -> R) (x : nat -> nat -> nat) (t : nat) : R :=
  sum k (fun i => theta i * INR (x t i)).

Section CompletionTime.
Variable k : nat.
Variables (theta : nat -> R) (W : R) (a : nat).   (* theta^i, W, a of one job *)
Variable x : nat -> nat -> nat.

(* Work in the rounds a, ..., a + u - 1. *)
Definition work_before (u : nat) : R := sum u (fun v => served k theta x (a + v)).
(* C = min {L : sum_{t = a}^L sum_i x^i(t) theta^i >= W} - a *)
Definition completion (C : nat) : Prop :=
  W <= work_before (S C) /\ forall c, (c < C)%nat -> work_before (S c) < W.
(* eq. (2): sum_{t >= a} (t - a) sum_i x^i(t) theta^i / W, up to round a + T - 1 *)
Definition approximation (T : nat) : R := sum T (fun u => INR u * (served k theta x (a + u) / W)).
(* The same, where a round counts only the work that remains. *)
Definition counted (u : nat) : R := Rmin (served k theta x (a + u)) (Rmax 0 (W - work_before u)).
Definition truncated (T : nat) : R := sum T (fun u => INR u * (counted u / W)).

(* Claim fft/eq-2-truncated: equation (2) is a lower bound of the completion time if the last round counts only the
   remaining work w. As printed it is larger by C (theta - w) / W, with theta of that round. A complete job does not
   run. *)
Theorem eq_2_truncated C T : 0 < W -> (forall i, (i < k)%nat -> 0 <= theta i) -> completion C ->
  (forall u i, (C < u)%nat -> (i < k)%nat -> x (a + u)%nat i = O) -> (C < T)%nat ->
  let w := W - work_before C in
  counted C = w /\ truncated T <= INR C /\
  approximation T = truncated T + INR C * (served k theta x (a + C) - w) / W.
Proof.
  intros PW PT (Last & First) Gone L w.
  assert (S0 : forall t, 0 <= served k theta x t).
  { intros t. apply sum_nonneg; intros i I. apply Rmult_le_pos; [auto|apply pos_INR]. }
  assert (Step : forall u, work_before (S u) = work_before u + served k theta x (a + u)) by reflexivity.
  assert (Left : forall u, (u <= C)%nat -> 0 < W - work_before u).
  { intros [|u] U; [cbn; lra|]. specialize (First u ltac:(lia)). lra. }
  assert (End : forall u, (C < u)%nat -> served k theta x (a + u) = 0).
  { intros u U. apply sum_zero; intros i I. rewrite Gone by auto. cbn. ring. }
  assert (Before : forall u, (u < C)%nat -> counted u = served k theta x (a + u)).
  { intros u U. unfold counted. specialize (First u U). rewrite Step in First. specialize (S0 (a + u)%nat).
    rewrite Rmax_right, Rmin_left; lra. }
  assert (At : counted C = w).
  { unfold counted, w. specialize (Left C ltac:(lia)). rewrite Step in Last. rewrite Rmax_right, Rmin_right; lra. }
  assert (After : forall u, (C < u)%nat -> counted u = 0).
  { intros u U. unfold counted. rewrite End by auto. rewrite Rmin_left; [auto|apply Rmax_l]. }
  assert (Total : sum T counted <= W).
  { enough (sum T counted = Rmin W (work_before T)) as -> by apply Rmin_l. clear - PW S0 Step. induction T as [|T IH].
    - unfold work_before. cbn. rewrite Rmin_right; lra.
    - cbn [sum]. rewrite IH, Step. unfold counted. specialize (S0 (a + T)%nat).
      unfold Rmin, Rmax. repeat destruct Rle_dec; lra. }
  assert (I : 0 < / W) by (apply Rinv_0_lt_compat; auto).
  split; [auto|]. split.
  - apply Rle_trans with (sum T (fun u => INR C * / W * counted u)).
    + apply sum_le; intros u _. destruct (le_lt_dec u C) as [U|U].
      * assert (0 <= counted u) by (apply Rmin_glb; [auto|apply Rmax_l]). apply le_INR in U. unfold Rdiv.
        replace (INR C * / W * counted u) with (INR C * (counted u * / W)) by ring.
        apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|auto].
      * rewrite After by auto. unfold Rdiv. lra.
    + rewrite sum_scal. pose proof (pos_INR C). replace (INR C) with (INR C * / W * W) at 2 by (field; lra).
      apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|auto].
  - unfold approximation, truncated.
    rewrite <- (sum_at T C (INR C * (served k theta x (a + C) - w) / W)), <- sum_plus by auto.
    apply sum_ext; intros u _. destruct (Nat.eqb_spec u C) as [->|N]; [rewrite At; field; lra|].
    destruct (Nat.lt_ge_cases u C) as [U|U]; [rewrite Before by auto; ring|].
    rewrite After, End by lia. unfold Rdiv; ring.
Qed.

End CompletionTime.

(* A job of work 3 that does 2 in each of the rounds 1 and 2. *)
Example eq_2_truncated_met : can_be_met eq_2_truncated.
Proof.
  intros H. apply (H 1%nat (fun _ => 2) 3 1%nat (fun t _ => if Nat.ltb t 3 then 1%nat else 0%nat) 1%nat 2%nat); try lia.
  - lra.
  - intros; lra.
  - split; [unfold work_before, served; cbn; lra|].
    intros c C. replace c with 0%nat by lia. unfold work_before, served; cbn; lra.
  - intros u i U _. destruct (Nat.ltb_spec (1 + u) 3); [lia|reflexivity].
Qed.

(* ---- Compensation: equation (5) ---- *)

Section Compensation.
Variable k : nat.
Variables (theta : nat -> R) (W unit : R) (a : nat).   (* of one job; unit = 1 as printed, or W for fractions of it *)
Variable x : nat -> nat -> nat.                        (* x^i(t) *)
Variable fair : nat -> R.                              (* tau - a, as estimated in round t *)

(* mu(t) = (t - a) / (tau - a) *)
Definition mu (t : nat) : R := INR (t - a) / fair t.
(* eq. (5): rho(t + 1) = max {0, rho(t) + mu(t) (W / (tau - a) - sum_i theta^i x^i(t))}, rho(a) = 0 *)
Fixpoint rho (t : nat) : R :=
  match t with
  | O => 0
  | S t => if Nat.ltb t a then 0 else Rmax 0 (rho t + mu t * ((W / fair t - served k theta x t) / unit))
  end.

Lemma rho_step t : (a <= t)%nat -> rho (S t) = Rmax 0 (rho t + mu t * ((W / fair t - served k theta x t) / unit)).
Proof. intros A. cbn [rho]. destruct (Nat.ltb_spec t a); [lia|reflexivity]. Qed.

(* Claim fft/eq-5-nonnegative: rho_j(t) >= 0 in all rounds. *)
Theorem eq_5_nonnegative t : rho a = 0 /\ 0 <= rho t.
Proof.
  split.
  { assert (Before : forall v, (v <= a)%nat -> rho v = 0); [|auto].
    intros [|v] V; [reflexivity|]. cbn [rho]. destruct (Nat.ltb_spec v a); [reflexivity|lia]. }
  destruct t as [|t]; cbn [rho]; [lra|]. destruct (t <? a)%nat; [lra|apply Rmax_l].
Qed.

(* Claim fft/fig-5-starved: rho_j increases continuously during periods of starvation, after the round of arrival. *)
Theorem fig_5_starved s e : 0 < W -> 0 < unit -> (a < s)%nat ->
  (forall t, (s <= t < e)%nat -> 0 < fair t /\ forall i, (i < k)%nat -> x t i = O) ->
  forall t t', (s <= t)%nat -> (t < t')%nat -> (t' <= e)%nat -> rho t < rho t'.
Proof.
  intros PW PU S Starved.
  assert (Step : forall t, (s <= t < e)%nat -> rho t < rho (Datatypes.S t)).
  { intros t T. destruct (Starved t T) as (F & Idle). rewrite rho_step by lia.
    assert (served k theta x t = 0) as -> by (apply sum_zero; intros i I; rewrite Idle by auto; cbn; ring).
    assert (M : 0 < mu t) by (apply Rdiv_lt_0_compat; [apply (lt_INR 0); lia|auto]).
    assert (0 < mu t * ((W / fair t - 0) / unit)).
    { apply Rmult_lt_0_compat; [auto|]. rewrite Rminus_0_r. repeat apply Rdiv_lt_0_compat; auto. }
    eapply Rlt_le_trans; [|apply Rmax_r]. lra. }
  intros t t' T L. induction L as [|t' L IH]; intros E; [apply Step; lia|].
  apply Rlt_trans with (rho t'); [apply IH|apply Step]; lia.
Qed.

(* Claim fft/fig-5-served: rho_j decreases when the desired resources are obtained: it does not increase in a round with
   sum_i theta_j^i x_j^i >= W_j / (tau_j - a_j), and decreases if the left side is larger, rho_j > 0 and t > a_j. *)
Theorem fig_5_served t : 0 < unit -> (a <= t)%nat -> 0 < fair t -> W / fair t <= served k theta x t ->
  rho (S t) <= rho t /\
  (W / fair t < served k theta x t -> 0 < rho t -> (a < t)%nat -> rho (S t) < rho t).
Proof.
  intros PU A F D. rewrite rho_step by auto. destruct (eq_5_nonnegative t) as (_ & P).
  assert (M : 0 <= mu t) by (apply Rmult_le_pos; [apply pos_INR|apply Rlt_le, Rinv_0_lt_compat; auto]).
  set (lag := (W / fair t - served k theta x t) / unit).
  assert (Lag : lag * unit = W / fair t - served k theta x t).
  { unfold lag, Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  split.
  - assert (lag <= 0) by (apply Rmult_le_reg_r with unit; lra). apply Rmax_lub; [auto|nra].
  - intros More Pos Later. assert (lag < 0) by (apply Rmult_lt_reg_r with unit; lra).
    assert (0 < mu t) by (apply Rdiv_lt_0_compat; [apply (lt_INR 0); lia|auto]).
    apply Rmax_lub_lt; [auto|nra].
Qed.

End Compensation.

Example eq_5_nonnegative_met : can_be_met eq_5_nonnegative.
Proof. intros H. exact (H 1%nat (fun _ => 1) 1 1 0%nat (fun _ _ => 0%nat) (fun _ => 2) 3%nat). Qed.

Example fig_5_starved_met : can_be_met fig_5_starved.
Proof.
  intros H.
  apply (H 1%nat (fun _ => 1) 4 4 1%nat (fun _ _ => 0%nat) (fun _ => 8) 2%nat 5%nat) with (t := 2%nat) (t' := 4%nat);
    try lia; try lra. intros; split; [lra|auto].
Qed.

Example fig_5_served_met : can_be_met fig_5_served.
Proof.
  intros H. apply (H 1%nat (fun _ => 1) 4 4 1%nat (fun _ _ => 1%nat) (fun _ => 8) 2%nat); try lia; try lra.
  unfold served; cbn. lra.
Qed.

(* ---- The effect of a larger compensation ---- *)

Section LargerCompensation.
Variables n k : nat.
Variables Y d : nat -> nat.
Variable can : nat -> nat -> Prop.
Variables age W unit : nat -> R.
Variables theta s : nat -> nat -> R.

(* The coefficients of (6) for a compensation rho. *)
Definition costs (rho : nat -> R) (j i : nat) : R :=
  coefficient (unit j) (age j) (INR (d j)) (W j) (theta j i) (s j i) (rho j).
Definition optimum (rho : nat -> R) : table -> Prop := optimal n k Y d can (costs rho).
(* sum_i theta_j^i x_j^i, in units of work or in fractions of the job *)
Definition progress (x : table) (j : nat) : R := sum k (fun i => theta j i / unit j * INR (x j i)).
(* rho with rho_j = 0 *)
Definition without (rho : nat -> R) (j : nat) : nat -> R := fun l => if Nat.eqb l j then 0 else rho l.

Lemma cost_split rho rho' j x : (j < n)%nat -> (forall l, (l < n)%nat -> l <> j -> rho' l = rho l) ->
  cost n k (costs rho) x = cost n k (costs rho') x - (rho j - rho' j) * progress x j.
Proof.
  intros J Same. unfold cost, progress. rewrite <- sum_scal.
  rewrite <- (sum_at n j (sum k (fun i => (rho j - rho' j) * (theta j i / unit j * INR (x j i))))) by auto.
  rewrite <- sum_minus. apply sum_ext; intros l L. destruct (Nat.eqb_spec l j) as [->|N].
  - rewrite <- sum_minus. apply sum_ext; intros i _. unfold costs, coefficient. ring.
  - rewrite Rminus_0_r. unfold costs. now rewrite (Same l L N).
Qed.

(* Claim fft/fig-5-chances: with a larger rho_j, all else equal, sum_i theta_j^i x_j^i of the round is at least as
   large, in every optimum. *)
Theorem fig_5_chances rho rho' j x x' : (j < n)%nat -> rho j < rho' j ->
  (forall l, (l < n)%nat -> l <> j -> rho' l = rho l) -> optimum rho x -> optimum rho' x' ->
  progress x j <= progress x' j.
Proof.
  intros J Larger Same (Fx & Ox) (Fy & Oy). specialize (Ox x' Fy). specialize (Oy x Fx).
  rewrite !(cost_split rho rho' j) in Ox by auto.
  apply Rmult_le_reg_l with (rho' j - rho j); lra.
Qed.

(* Plans with K* GPUs that contain job j, and those without it. *)
Definition contains (j : nat) (x : table) : Prop := full n k Y d can x /\ runs k x j = 1%nat.
Definition lacks (j : nat) (x : table) : Prop := full n k Y d can x /\ runs k x j = 0%nat.
(* z is the least value of f on the plans P. *)
Definition least_value (P : table -> Prop) (f : table -> R) (z : R) : Prop :=
  (exists x, P x /\ f x = z) /\ forall x, P x -> z <= f x.
(* c(x) and u(x), both at rho_j = 0 *)
Definition plain (rho : nat -> R) (j : nat) (x : table) : R := cost n k (costs (without rho j)) x.
(* z = min_x (c(x) - c(y)) / u(x), y the best plan without j *)
Definition threshold (rho : nat -> R) (j : nat) (z : R) : Prop := exists best,
  least_value (lacks j) (plain rho j) best /\
  least_value (contains j) (fun x => (plain rho j x - best) / progress x j) z.

Lemma least_value_exists (P : table -> Prop) f :
  (forall x y, agree n k x y -> P x -> P y /\ f x = f y) -> (forall x, P x -> packing n k Y d can x) ->
  (exists x, P x) -> exists z, least_value P f z.
Proof. intros A B C. destruct (least_plan n k Y d can P f A B C) as (x & Px & L). exists (f x). split; eauto. Qed.

Lemma agree_progress x y j : agree n k x y -> (j < n)%nat -> progress x j = progress y j.
Proof. intros A J. apply sum_ext; intros i I. now rewrite A. Qed.

Lemma threshold_exists rho j : (j < n)%nat -> (exists x, contains j x) -> (exists x, lacks j x) ->
  exists z, threshold rho j z.
Proof.
  intros J Some Other. destruct (least_value_exists (lacks j) (plain rho j)) as (best & B); auto.
  { intros x y A (F & R). unfold lacks, plain. rewrite <- (agree_runs n k x y), (agree_cost n k _ x y) by auto.
    repeat split; auto; now apply (agree_full n k Y d can x). }
  { intros x (F & _). apply F. }
  destruct (least_value_exists (contains j) (fun x => (plain rho j x - best) / progress x j)) as (z & Z); auto.
  { intros x y A (F & R). unfold contains, plain.
    rewrite <- (agree_runs n k x y), (agree_cost n k _ x y), (agree_progress x y) by auto.
    repeat split; auto; now apply (agree_full n k Y d can x). }
  { intros x (F & _). apply F. }
  exists z, best. auto.
Qed.

(* A plan without job j is not optimal. *)
Lemma above_threshold rho j z x : (j < n)%nat -> 0 < unit j ->
  (forall i, (i < k)%nat -> can j i -> 0 < theta j i) -> threshold rho j z -> z < rho j -> optimum rho x ->
  contains j x.
Proof.
  intros J U Theta (best & (_ & Best) & ((y & (Fy & Ry) & Ly) & _)) Exceeds (Fx & Ox).
  split; [auto|]. pose proof (one_type _ _ _ _ _ _ (proj1 Fx) j J) as One.
  destruct (Nat.eq_dec (runs k x j) 0) as [Z|N]; [exfalso|lia].
  specialize (Best x (conj Fx Z)). specialize (Ox y Fy).
  assert (Same : forall l, (l < n)%nat -> l <> j -> without rho j l = rho l).
  { intros l _ N. unfold without. now destruct (Nat.eqb_spec l j). }
  rewrite !(cost_split rho (without rho j) j) in Ox by auto.
  replace (without rho j j) with 0 in Ox by (unfold without; now rewrite Nat.eqb_refl).
  assert (Px : progress x j = 0).
  { apply sum_zero; intros i I. pose proof (nsum_term k (x j) i I) as T. unfold runs in Z.
    replace (x j i) with 0%nat by lia. cbn. ring. }
  assert (Py : 0 < progress y j).
  { assert (Able : forall i, (i < k)%nat -> y j i <> 0%nat -> 0 < theta j i / unit j).
    { intros i I V. apply Rdiv_lt_0_compat; [apply Theta; auto|auto]. apply NNPP; intros N.
      now apply (memory _ _ _ _ _ _ (proj1 Fy)) in N. }
    destruct (nsum_positive k (y j)) as (i & I & V); [unfold runs in Ry; lia|].
    apply Rlt_le_trans with (theta j i / unit j * INR (y j i)).
    - apply Rmult_lt_0_compat; [apply Able; lia|now apply (lt_INR 0)].
    - apply (sum_term k (fun h => theta j h / unit j * INR (y j h))); [|auto]. intros h H.
      destruct (Nat.eq_dec (y j h) 0) as [E|E]; [rewrite E; cbn; lra|].
      apply Rmult_le_pos; [now apply Rlt_le, Able|apply pos_INR]. }
  rewrite Px in Ox. unfold plain in *.
  assert (cost n k (costs (without rho j)) y - best = z * progress y j) by (rewrite <- Ly; field; lra).
  assert (z * progress y j < rho j * progress y j) by (apply Rmult_lt_compat_r; auto). lra.
Qed.

(* Claim fft/rho-large-packed: if some plan with K* GPUs contains job j, every optimum contains it once rho_j exceeds
   z = min_x (c(x) - c(y)) / u(x) and 0: c the cost and u the progress of j, both at rho_j = 0, x over these plans,
   and y the best plan with K* GPUs without j. If there is none, every optimum contains j. (z suffices without 0.) *)
Theorem rho_large_packed rho j : (j < n)%nat -> 0 < unit j ->
  (forall i, (i < k)%nat -> can j i -> 0 < theta j i) -> (exists x, contains j x) ->
  ((exists x, lacks j x) ->
     exists z, threshold rho j z /\ (z < rho j -> forall x, optimum rho x -> contains j x)) /\
  (~ (exists x, lacks j x) -> forall x, optimum rho x -> contains j x).
Proof.
  intros J U Theta Some. split.
  - intros Other. destruct (threshold_exists rho j J Some Other) as (z & Z). exists z. split; [auto|].
    intros Exceeds x. now apply (above_threshold rho j z).
  - intros None x (F & _). split; [auto|]. pose proof (one_type _ _ _ _ _ _ (proj1 F) j J) as One.
    destruct (Nat.eq_dec (runs k x j) 0) as [Z|N]; [|lia]. destruct None. exists x. now split.
Qed.

End LargerCompensation.

(* Two gangs of one GPU on one GPU. *)
Definition one : nat -> nat := fun _ => 1%nat.
Definition ones : nat -> R := fun _ => 1.
Definition every : nat -> nat -> Prop := fun _ _ => True.
Definition only (j : nat) : table := fun l _ => if Nat.eqb l j then 1%nat else 0%nat.

Lemma only_full j : (j < 2)%nat -> full 2 1 one one every (only j).
Proof.
  intros J. assert (U : used 2 1 one (only j) = 1%nat) by (destruct j as [|[|j]]; [reflexivity|reflexivity|lia]).
  apply full_most. assert (P : packing 2 1 one one every (only j)).
  { split.
    - intros l i _ _. unfold only. destruct (l =? j)%nat; auto.
    - intros l _. unfold runs, only. cbn. destruct (l =? j)%nat; lia.
    - intros i I. replace i with 0%nat by lia. destruct j as [|[|j]]; [vm_compute; auto|vm_compute; auto|lia].
    - intros l i _ _ N. destruct N. exact I. }
  split; [auto|]. rewrite U. split; [eauto|]. intros x [_ _ Cap _]. specialize (Cap 0%nat ltac:(lia)).
  change (on 2 one x 0 <= 1)%nat in Cap. unfold used. cbn [nsum]. lia.
Qed.

Example fig_5_chances_met : can_be_met fig_5_chances.
Proof.
  intros H.
  destruct (optimum_exists 2 1 one one every (costs one ones ones ones (fun _ _ => 1) (fun _ _ => 0) (fun _ => 0)))
    as (x & X).
  destruct (optimum_exists 2 1 one one every
    (costs one ones ones ones (fun _ _ => 1) (fun _ _ => 0) (fun l => if Nat.eqb l 0 then 1 else 0))) as (y & Y0).
  apply (H 2%nat 1%nat one one every ones ones ones (fun _ _ => 1) (fun _ _ => 0) (fun _ => 0)
    (fun l => if Nat.eqb l 0 then 1 else 0) 0%nat x y); auto; [cbn; lra|].
  intros l _ N. now destruct (Nat.eqb_spec l 0).
Qed.

Example rho_large_packed_met : can_be_met rho_large_packed.
Proof.
  intros H. apply (H 2%nat 1%nat one one every ones ones ones (fun _ _ => 1) (fun _ _ => 0) ones 0%nat).
  - lia.
  - unfold ones; lra.
  - intros; lra.
  - exists (only 0). split; [apply only_full; lia|reflexivity].
Qed.

(* ---- Schedules: Theorem 4.2, mu, the unit of work, and the fair progress ---- *)

(* The largest f i of the types i < k in us; 0 if there is none. *)
Definition largest_in (k : nat) (us : nat -> bool) (f : nat -> R) : R := largest k (fun i => if us i then f i else 0).
(* The last type that attains it. *)
Fixpoint best (k : nat) (us : nat -> bool) (f : nat -> R) : nat :=
  match k with
  | O => O
  | S k => if us k then (if Rle_dec (largest_in k us f) (f k) then k else best k us f) else best k us f
  end.

Lemma largest_in_ge k us f i : (i < k)%nat -> us i = true -> f i <= largest_in k us f.
Proof. intros I U. generalize (largest_ge k (fun i => if us i then f i else 0) i I). cbn. now rewrite U. Qed.

Lemma best_spec k us f : 0 < largest_in k us f ->
  (best k us f < k)%nat /\ us (best k us f) = true /\ f (best k us f) = largest_in k us f.
Proof.
  induction k; cbn; intros P; [lra|]. fold (largest_in k us f) in *. destruct (us k) eqn:U.
  - destruct (Rle_dec (largest_in k us f) (f k)) as [L|L]; [rewrite Rmax_right by auto; auto|].
    rewrite Rmax_left in * by lra. destruct (IHk P) as (A & B & C). auto.
  - rewrite Rmax_left in * by apply largest_nonneg. destruct (IHk P) as (A & B & C). auto.
Qed.

Lemma largest_in_le k us f g : (forall i, (i < k)%nat -> us i = true -> f i <= g i) ->
  largest_in k us f <= largest_in k us g.
Proof.
  intros H. apply largest_le; [apply largest_nonneg|]. intros i I. destruct (us i) eqn:U; [|apply largest_nonneg].
  apply Rle_trans with (g i); [auto|now apply largest_in_ge].
Qed.

Lemma largest_in_scal k us f u : 0 < u -> largest_in k us (fun i => u * f i) = u * largest_in k us f.
Proof.
  intros P. unfold largest_in. induction k; cbn; [ring|]. rewrite IHk, <- RmaxRmult by lra.
  destruct (us k); [auto|now rewrite Rmult_0_r].
Qed.

Lemma ceiling_above r : r <= INR (Z.to_nat (ceiling r)).
Proof.
  rewrite INR_IZR_INZ. apply Rle_trans with (IZR (ceiling r)); [apply ceiling_spec|]. apply IZR_le. lia.
Qed.

Section Schedules.
Variables n k : nat.
Variables Y d a : nat -> nat.                 (* GPUs, demands, arrivals *)
Variable W : nat -> R.
Variable theta : nat -> nat -> R.
Variable memory_suffices : nat -> nat -> bool.

(* The types that job j can use: enough memory, and enough GPUs for the gang. *)
Definition usable (j i : nat) : bool := memory_suffices j i && (d j <=? Y i)%nat.

(* x t is the plan of round t. *)
Definition of_job (x : nat -> table) (j : nat) : nat -> nat -> nat := fun t => x t j.
(* Work of job j before round t. *)
Definition done (x : nat -> table) (t j : nat) : R := sum t (served k (theta j) (of_job x j)).
(* j in A(t): it has arrived, and work is left. *)
Definition present (x : nat -> table) (t j : nat) : bool :=
  (a j <=? t)%nat && (if Rlt_dec (done x t j) (W j) then true else false).
(* |A(t)| *)
Definition number_present (x : nat -> table) (t : nat) : nat :=
  nsum n (fun j => if present x t j then 1%nat else 0%nat).
Definition can_run (x : nat -> table) (t j i : nat) : Prop := present x t j = true /\ usable j i = true.
(* Present jobs run under eq. (1). *)
Definition schedule (x : nat -> table) : Prop := forall t, packing n k Y d (can_run x t) (x t).
(* In no round a waiting job fits on the idle GPUs. *)
Definition packed (x : nat -> table) : Prop := forall t j i, (j < n)%nat -> (i < k)%nat ->
  present x t j = true -> runs k (x t) j = 0%nat -> usable j i = true -> (Y i < on n d (x t) i + d j)%nat.

(* Demands, works, and speeds on usable types are positive. *)
Definition jobs_valid : Prop := forall j, (j < n)%nat -> (0 < d j)%nat /\ 0 < W j /\
  forall i, (i < k)%nat -> usable j i = true -> 0 < theta j i.

Lemma served_terms x t j i : jobs_valid -> schedule x -> (j < n)%nat -> (i < k)%nat -> 0 <= theta j i * INR (x t j i).
Proof.
  intros Valid S J I. destruct (Valid j J) as (_ & _ & V). destruct (Nat.eq_dec (x t j i) 0) as [E|E].
  { rewrite E. cbn. lra. }
  apply Rmult_le_pos; [|apply pos_INR]. apply Rlt_le, V; auto. apply not_false_is_true. intros U. apply E.
  apply (memory _ _ _ _ _ _ (S t)); auto. intros (_ & U'). congruence.
Qed.

Lemma served_nonneg x t j : jobs_valid -> schedule x -> (j < n)%nat -> 0 <= served k (theta j) (of_job x j) t.
Proof. intros. apply sum_nonneg; intros i I. now apply (served_terms x t j i). Qed.

Lemma running x t j : schedule x -> (j < n)%nat -> runs k (x t) j <> 0%nat ->
  runs k (x t) j = 1%nat /\ exists i, (i < k)%nat /\ x t j i = 1%nat /\ present x t j = true /\ usable j i = true.
Proof.
  intros S J N. destruct (S t) as [Bin One _ Mem]. split; [specialize (One j J); lia|].
  destruct (nsum_positive k (x t j)) as (i & I & V); [unfold runs in N; lia|]. exists i.
  destruct (Bin j i J I) as [E|E]; [lia|]. repeat split; auto; apply not_false_is_true; intros U;
    rewrite Mem in E; auto; try lia; intros (A & B); congruence.
Qed.

(* A job runs in at most ceil(max_i W / theta^i) rounds. *)
Definition most_rounds (j : nat) : nat := Z.to_nat (ceiling (largest_in k (usable j) (fun i => W j / theta j i))).

Lemma rounds_bound x j t : jobs_valid -> schedule x -> (j < n)%nat ->
  (nsum t (fun u => runs k (x u) j) <= most_rounds j)%nat.
Proof.
  intros Valid S J. destruct (Valid j J) as (_ & PW & Speed). unfold most_rounds.
  set (M := largest_in k (usable j) (fun i => W j / theta j i)).
  assert (M0 : 0 <= M) by apply largest_nonneg. pose proof (ceiling_above M) as C.
  enough ((nsum t (fun u => runs k (x u) j) <= Z.to_nat (ceiling M))%nat /\
    INR (nsum t (fun u => runs k (x u) j)) * W j <= M * done x t j) by tauto.
  induction t as [|t (R & Z)]; [cbn; unfold done; cbn; split; [lia|lra]|].
  unfold done. cbn [nsum sum]. fold (done x t j). pose proof (served_nonneg x t j Valid S J) as P.
  set (r := nsum t (fun u => runs k (x u) j)) in *.
  destruct (Nat.eq_dec (runs k (x t) j) 0) as [E|E]; [rewrite E, Nat.add_0_r; split; [auto|nra]|].
  destruct (running x t j S J E) as (-> & i & I & X & Pres & U). specialize (Speed i I U).
  unfold present in Pres. apply andb_prop in Pres as (_ & Pres). destruct Rlt_dec as [L|]; [clear Pres|discriminate].
  assert (Mi : W j / theta j i <= M) by (apply (largest_in_ge k (usable j) (fun i => W j / theta j i)); auto).
  assert (MP : 0 < M) by (eapply Rlt_le_trans; [|apply Mi]; now apply Rdiv_lt_0_compat).
  assert (T : theta j i <= served k (theta j) (of_job x j) t).
  { replace (theta j i) with (theta j i * INR (x t j i)) by (rewrite X; cbn; ring).
    apply (sum_term k (fun i => theta j i * INR (of_job x j t i))); auto.
    intros h H; now apply (served_terms x t j h). }
  assert (Full : W j <= M * theta j i).
  { apply Rmult_le_compat_r with (r := theta j i) in Mi; [|lra]. unfold Rdiv in Mi.
    rewrite Rmult_assoc, Rinv_l in Mi; lra. }
  assert (Less : INR r < M) by (apply Rmult_lt_reg_r with (W j); nra).
  split.
  - enough (r < Z.to_nat (ceiling M))%nat by lia. apply INR_lt. lra.
  - rewrite plus_INR. cbn [INR]. nra.
Qed.

Lemma nsum_const_le m c f : (forall v, (v < m)%nat -> (c <= f v)%nat) -> (m * c <= nsum m f)%nat.
Proof. induction m; cbn; intros H; [lia|]. specialize (H m ltac:(lia)) as Last. specialize (IHm ltac:(auto)). lia. Qed.

Lemma nsum_shift s m f : (nsum m (fun v => f (s + v)%nat) <= nsum (s + m) f)%nat.
Proof. rewrite nsum_append. lia. Qed.

(* Claim fft/thm-4.2-packed: if in no round a waiting job fits on the idle GPUs, then wait_j sum_i max(0, Y_i - d_j +
   1) <= sum_{l <> j} d_l ceil(max_i W_l / theta_l^i), on the left over the types that j can use, on the right over
   the jobs that arrive before the first run of j and the types that they can use. T is at most the round of the first
   run. *)
Theorem thm_4_2_packed x j T : jobs_valid -> schedule x -> packed x -> (j < n)%nat ->
  (forall t, (a j <= t < T)%nat -> runs k (x t) j = 0%nat) ->
  ((T - a j) * nsum k (fun i => if usable j i then Y i + 1 - d j else 0) <=
   nsum n (fun l => if (l =? j) || (T <=? a l) then 0 else d l * most_rounds l))%nat.
Proof.
  intros Valid S P J Waits. destruct (Valid j J) as (_ & PW & _).
  assert (Before : forall t, (t < T)%nat -> runs k (x t) j = 0%nat).
  { intros t L. destruct (Nat.eq_dec (runs k (x t) j) 0) as [|E]; [auto|].
    destruct (running x t j S J E) as (_ & i & _ & _ & Pres & _). apply andb_prop in Pres as (A & _).
    apply Nat.leb_le in A. apply Waits. lia. }
  assert (Idle : forall t, (t <= T)%nat -> done x t j = 0).
  { intros t L. apply sum_zero; intros u U. apply sum_zero; intros i I.
    pose proof (nsum_term k (x u j) i I) as V. specialize (Before u ltac:(lia)). unfold runs in Before.
    unfold of_job. replace (x u j i) with 0%nat by lia. cbn. ring. }
  assert (Busy : forall t, (a j <= t < T)%nat ->
    (nsum k (fun i => if usable j i then Y i + 1 - d j else 0) <= nsum n (fun l => d l * runs k (x t) l))%nat).
  { intros t L. rewrite <- used_by_jobs. apply nsum_le; intros i I. destruct (usable j i) eqn:U; [|lia].
    assert (Y i < on n d (x t) i + d j)%nat; [|lia]. apply P; auto. unfold present.
    rewrite Idle by lia. destruct Rlt_dec as [_|N]; [|tauto]. rewrite andb_true_r. apply Nat.leb_le; lia. }
  set (busy := fun v => nsum n (fun l => d l * runs k (x (a j + v)%nat) l)%nat).
  apply Nat.le_trans with (nsum (T - a j) busy).
  { apply nsum_const_le. intros v V. apply Busy. lia. }
  unfold busy.
  rewrite nsum_swap. apply nsum_le; intros l L. rewrite nsum_mult.
  assert (Sum : (nsum (T - a j) (fun v => runs k (x (a j + v)%nat) l) <= most_rounds l)%nat).
  { eapply Nat.le_trans; [apply (nsum_shift (a j) (T - a j) (fun t => runs k (x t) l))|]. now apply rounds_bound. }
  assert (None : (forall t, (t < T)%nat -> runs k (x t) l = 0%nat) ->
    nsum (T - a j) (fun v => runs k (x (a j + v)%nat) l) = 0%nat).
  { intros H. apply nsum_zero; intros v V. apply H. lia. }
  destruct (Nat.eqb_spec l j) as [->|N]; cbn [orb]; [rewrite None by auto; lia|].
  destruct (Nat.leb_spec T (a l)) as [Late|]; [|now apply Nat.mul_le_mono_l].
  rewrite None; [lia|]. intros t V. destruct (Nat.eq_dec (runs k (x t) l) 0) as [|E]; [auto|].
  destruct (running x t l S L E) as (_ & i & _ & _ & Pres & _). apply andb_prop in Pres as (A & _).
  apply Nat.leb_le in A. lia.
Qed.

(* FFT in every round, with any costs. *)
Definition fft_schedule (c : nat -> nat -> nat -> R) (x : nat -> table) : Prop :=
  forall t, fft_plan n k Y d (can_run x t) (c t) (x t).

(* Claim fft/work-conserving: in no round of a schedule of FFT, for any costs, a waiting job fits on the idle GPUs. So
   thm_4_2_packed holds for it. *)
Theorem fft_is_packed c x : jobs_valid -> fft_schedule c x -> schedule x /\ packed x.
Proof.
  intros Valid F. split.
  - intros t. apply (fft_plan_full n k Y d (can_run x t) (c t) (x t) (F t)).
  - intros t j i J I Pres Wait U. apply (work_conserving n k Y d (can_run x t) (c t)); auto.
    + now apply Valid.
    + now split.
    + intros h H. pose proof (nsum_term k (x t j) h H). unfold runs in Wait. lia.
Qed.

(* The estimates of tau_j - a_j with m jobs. hetopt: p_j max(1, d_j m / sum_i Y_i), p_j the rounds on the fastest
   type. *)
Definition fair_fastest (m j : nat) : R :=
  W j / largest_in k (usable j) (theta j) * Rmax 1 (INR (d j) * INR m / INR (nsum k Y)).
(* As printed, on Y_i / m GPUs of each type, without preemption: the least W_j / theta_j^i max(1, d_j m / Y_i). *)
Definition crowd (m j i : nat) : R := Rmax 1 (INR (d j) * INR m / INR (Y i)).
Definition fair_part (m j : nat) : R := W j / largest_in k (usable j) (fun i => theta j i / crowd m j i).
(* The type with the least. *)
Definition home (m j : nat) : nat := best k (usable j) (fun i => theta j i / crowd m j i).

Lemma crowd_le dj m m' y : (m' <= m)%nat -> Rmax 1 (INR dj * INR m' / INR y) <= Rmax 1 (INR dj * INR m / INR y).
Proof.
  intros L. apply le_INR in L. apply Rle_max_compat_l. pose proof (pos_INR dj).
  assert (0 <= / INR y).
  { destruct (Nat.eq_dec y 0) as [->|N]; [cbn; rewrite Rinv_0; lra|]. apply Rlt_le, Rinv_0_lt_compat, (lt_INR 0). lia. }
  apply Rmult_le_compat_r; [auto|]. apply Rmult_le_compat_l; auto.
Qed.

(* Some type can run job j. *)
Definition runnable (j : nat) : Prop := exists i, (i < k)%nat /\ usable j i = true.

Lemma largest_pos j f : runnable j -> (forall i, (i < k)%nat -> usable j i = true -> 0 < f i) ->
  0 < largest_in k (usable j) f.
Proof. intros (i & I & U) H. eapply Rlt_le_trans; [apply (H i I U)|]. now apply largest_in_ge. Qed.

Lemma crowd_ge m j i : 1 <= crowd m j i.
Proof. apply Rmax_l. Qed.

Lemma part_speed_pos j m : jobs_valid -> (j < n)%nat -> runnable j ->
  0 < largest_in k (usable j) (fun i => theta j i / crowd m j i).
Proof.
  intros Valid J R. apply largest_pos; [auto|]. intros i I U. apply Rdiv_lt_0_compat; [now apply (Valid j J)|].
  pose proof (crowd_ge m j i). lra.
Qed.

Lemma home_spec m j : jobs_valid -> (j < n)%nat -> runnable j ->
  (home m j < k)%nat /\ usable j (home m j) = true /\ theta j (home m j) / crowd m j (home m j) = W j / fair_part m j.
Proof.
  intros Valid J R. pose proof (part_speed_pos j m Valid J R) as P. destruct (best_spec _ _ _ P) as (B & U & E).
  repeat split; auto. unfold home. rewrite E. unfold fair_part. destruct (Valid j J) as (_ & PW & _). field. split; lra.
Qed.

Lemma fair_monotone m m' j : jobs_valid -> (j < n)%nat -> runnable j -> (m' <= m)%nat ->
  0 < fair_fastest m' j <= fair_fastest m j /\ 0 < fair_part m' j <= fair_part m j.
Proof.
  intros Valid J R L. destruct (Valid j J) as (_ & PW & Speed). unfold fair_fastest, fair_part.
  assert (P : 0 < W j / largest_in k (usable j) (theta j)) by (apply Rdiv_lt_0_compat; [|apply largest_pos]; auto).
  pose proof (crowd_le (d j) m m' (nsum k Y) L). pose proof (Rmax_l 1 (INR (d j) * INR m' / INR (nsum k Y))).
  split; split.
  - apply Rmult_lt_0_compat; lra.
  - apply Rmult_le_compat_l; lra.
  - apply Rdiv_lt_0_compat; [auto|now apply part_speed_pos].
  - apply Rmult_le_compat_l; [lra|]. apply Rinv_le_contravar; [now apply part_speed_pos|].
    apply largest_in_le; intros i I U. pose proof (crowd_ge m' j i).
    apply Rmult_le_compat_l; [now apply Rlt_le, Speed|]. apply Rinv_le_contravar; [lra|]. now apply crowd_le.
Qed.

Lemma mu_step fair t aj : (aj <= t)%nat -> 0 < fair (S t) <= fair t -> mu aj fair t < mu aj fair (S t).
Proof.
  intros A (P & L). unfold mu. apply Rle_lt_trans with (INR (t - aj) / fair (S t)).
  - apply Rmult_le_compat_l; [apply pos_INR|]. now apply Rinv_le_contravar.
  - apply Rmult_lt_compat_r; [now apply Rinv_0_lt_compat|]. apply lt_INR. lia.
Qed.

(* Claim fft/mu-grows-constant: mu_j increases from one round to the next if no job arrives between them and the GPUs
   are the same, for the estimate of hetopt and for the printed one. *)
Theorem mu_grows_constant x t j : jobs_valid -> schedule x -> (j < n)%nat -> runnable j -> (a j <= t)%nat ->
  (forall l, (l < n)%nat -> a l <> S t) ->
  let fastest u := fair_fastest (number_present x u) j in
  let part u := fair_part (number_present x u) j in
  mu (a j) fastest t < mu (a j) fastest (S t) /\ mu (a j) part t < mu (a j) part (S t).
Proof.
  intros Valid S J R A Quiet fastest part.
  assert (L : (number_present x (Datatypes.S t) <= number_present x t)%nat).
  { apply nsum_le; intros l L. destruct (present x (Datatypes.S t) l) eqn:P; [|lia].
    enough (present x t l = true) as -> by auto. unfold present in *. apply andb_prop in P as (A' & P).
    apply Nat.leb_le in A'. specialize (Quiet l L). destruct Rlt_dec as [D|] in P; [clear P|discriminate].
    unfold done in D. cbn [sum] in D. fold (done x t l) in D. pose proof (served_nonneg x t l Valid S L).
    destruct Rlt_dec as [_|N]; [|lra]. rewrite andb_true_r. apply Nat.leb_le. lia. }
  destruct (fair_monotone _ _ j Valid J R L) as (F & G). split; apply mu_step; auto.
Qed.

(* Claim fft/tau-average: if all jobs together progress by W_j / (tau_j - a_j) in every round, with tau_j as estimated
   in a dedicated cluster with 1 / |A(t)| of all types of resources, no more GPUs of a type are in use on average than
   there are, and no job runs for more than the whole time. *)
Theorem tau_average : jobs_valid -> (forall j, (j < n)%nat -> runnable j) -> exists part : nat -> nat -> R,
  (forall j i, (j < n)%nat -> (i < k)%nat -> 0 <= part j i /\ (usable j i = false -> part j i = 0)) /\
  (forall j, (j < n)%nat -> sum k (fun i => theta j i * part j i) = W j / fair_part n j) /\
  (forall i, (i < k)%nat -> sum n (fun j => INR (d j) * part j i) <= INR (Y i)) /\
  (forall j, (j < n)%nat -> sum k (part j) <= 1).
Proof.
  intros Valid Runs. assert (Home := fun j J => home_spec n j Valid J (Runs j J)).
  exists (fun j i => if Nat.eqb i (home n j) then / crowd n j i else 0). repeat split.
  - destruct (i =? home n j)%nat; [|lra]. apply Rlt_le, Rinv_0_lt_compat. pose proof (crowd_ge n j i). lra.
  - intros U. destruct (Nat.eqb_spec i (home n j)) as [->|]; [|auto]. destruct (Home j H) as (_ & V & _). congruence.
  - intros j J. destruct (Home j J) as (B & _ & <-).
    rewrite <- (sum_at k (home n j) (theta j (home n j) / crowd n j (home n j)) B).
    apply sum_ext; intros i _. destruct (Nat.eqb_spec i (home n j)) as [->|]; unfold Rdiv; ring.
  - intros i I. destruct (Nat.eq_dec n 0) as [Z|Z]; [rewrite Z; cbn; apply pos_INR|].
    assert (N : 0 < INR n) by (apply (lt_INR 0); lia).
    apply Rle_trans with (sum n (fun _ => INR (Y i) / INR n)); [|rewrite sum_const; right; field; lra].
    apply sum_le; intros j J. destruct (Nat.eqb_spec i (home n j)) as [->|].
    2:{ rewrite Rmult_0_r. apply Rmult_le_pos; [apply pos_INR|now apply Rlt_le, Rinv_0_lt_compat]. }
    destruct (Home j J) as (B & U & _). unfold usable in U. apply andb_prop in U as (_ & U). apply Nat.leb_le in U.
    destruct (Valid j J) as (D & _). apply lt_INR in D. apply le_INR in U. cbn in D.
    assert (Q : INR (d j) * INR n / INR (Y (home n j)) <= crowd n j (home n j)) by apply Rmax_r.
    pose proof (crowd_ge n j (home n j)) as C1. set (c := crowd n j (home n j)) in *.
    set (y := INR (Y (home n j))) in *.
    apply Rmult_le_reg_r with (c * INR n); [apply Rmult_lt_0_compat; lra|].
    replace (INR (d j) * / c * (c * INR n)) with (INR (d j) * INR n / y * y) by (field; lra).
    replace (y / INR n * (c * INR n)) with (c * y) by (field; lra). apply Rmult_le_compat_r; lra.
  - intros j J. destruct (Home j J) as (B & _ & _). pose proof (crowd_ge n j (home n j)) as C1.
    apply Rle_trans with (/ crowd n j (home n j)).
    + rewrite <- (sum_at k (home n j) (/ crowd n j (home n j)) B). right. apply sum_ext; intros i _.
      now destruct (Nat.eqb_spec i (home n j)) as [->|].
    + rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
Qed.

Lemma nsum_below m c : nsum m (fun v => if (v <? c)%nat then 1%nat else 0%nat) = Nat.min m c.
Proof. induction m; cbn [nsum]; [reflexivity|]. rewrite IHm. destruct (Nat.ltb_spec m c); lia. Qed.

(* Claim fft/tau-equal-gangs: all jobs together can progress by W_j / (tau_j - a_j) in every round, by time-sharing,
   with tau_j as estimated in a dedicated cluster with 1 / |A(t)| of all types of resources, if all jobs demand the
   same number D of GPUs, and D divides every Y_i. By turns of whole gangs every job does this on average over any n
   rounds. *)
Theorem tau_equal_gangs D : jobs_valid -> (forall j, (j < n)%nat -> runnable j) -> (forall j, (j < n)%nat -> d j = D) ->
  (forall i, (i < k)%nat -> Nat.divide D (Y i)) -> exists x : nat -> table,
  (forall t, packing n k Y d (fun j i => usable j i = true) (x t)) /\
  forall s j, (j < n)%nat ->
    sum n (fun v => served k (theta j) (of_job x j) (s + v)) = INR n * (W j / fair_part n j).
Proof.
  intros Valid Runs Same Divides. assert (Home := fun j J => home_spec n j Valid J (Runs j J)).
  (* job j runs on its best type i in Y_i / D of n rounds *)
  set (x := fun t j i => if (i =? home n j)%nat && ((t + j) mod n <? Y i / D)%nat then 1%nat else 0%nat).
  exists x. split.
  - intros t. split.
    + intros j i _ _. unfold x. destruct (_ && _); auto.
    + intros j J. destruct (Home j J) as (B & _ & _). rewrite <- (nsum_at k (home n j) 1 B). apply nsum_le; intros i I.
      unfold x. destruct (i =? home n j)%nat, (_ <? _)%nat; cbn; lia.
    + intros i I.
      apply Nat.le_trans with (D * nsum n (fun j => if ((t + j) mod n <? Y i / D)%nat then 1%nat else 0%nat))%nat.
      * rewrite <- nsum_mult. apply nsum_le; intros j J. rewrite Same by auto. unfold x.
        destruct (i =? home n j)%nat, (_ <? _)%nat; cbn; lia.
      * rewrite (nsum_cycle n t (fun v => if (v <? Y i / D)%nat then 1%nat else 0%nat)), nsum_below.
        destruct (Nat.eq_dec D 0) as [->|N]; [lia|]. pose proof (Nat.mul_div_le (Y i) D N). nia.
    + intros j i J I N. unfold x. destruct (Nat.eqb_spec i (home n j)) as [->|]; [|reflexivity].
      destruct (Home j J) as (_ & U & _). congruence.
  - intros s j J. destruct (Home j J) as (B & U & <-). destruct (Valid j J) as (PD & _ & _).
    assert (E : forall v, served k (theta j) (of_job x j) (s + v) =
      theta j (home n j) * INR (if ((s + j + v) mod n <? Y (home n j) / D)%nat then 1 else 0)).
    { intros v. unfold served, of_job, x. rewrite <- (sum_at k (home n j) (theta j (home n j) * INR _) B).
      apply sum_ext; intros i _. destruct (Nat.eqb_spec i (home n j)) as [->|]; cbn [andb]; [|cbn; ring].
      now replace (s + v + j)%nat with (s + j + v)%nat by lia. }
    rewrite (sum_ext n _ _ (fun v _ => E v)), sum_scal, <- INR_nsum.
    rewrite (nsum_cycle n (s + j) (fun v => if (v <? Y (home n j) / D)%nat then 1%nat else 0%nat)), nsum_below.
    destruct (Divides (home n j) B) as (q & Q). unfold usable in U. apply andb_prop in U as (_ & U).
    apply Nat.leb_le in U.
    rewrite Same in PD, U by auto. unfold crowd. rewrite Same, Q, Nat.div_mul by (auto; lia).
    assert (Pn : 0 < INR n) by (apply (lt_INR 0); lia). assert (Pq : 0 < INR q) by (apply (lt_INR 0); nia).
    apply (lt_INR 0) in PD. cbn in PD. rewrite mult_INR.
    replace (INR D * INR n / (INR q * INR D)) with (INR n / INR q) by (field; lra).
    destruct (Nat.le_ge_cases n q) as [L|L]; [rewrite Nat.min_l by auto|rewrite Nat.min_r by auto]; apply le_INR in L.
    + rewrite Rmax_left; [field|]. apply Rmult_le_reg_r with (INR q); auto. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l; lra.
    + rewrite Rmax_right; [field; lra|]. apply Rmult_le_reg_r with (INR q); auto. unfold Rdiv.
      rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(* Claim fft/tau-one-gpu-jobs: all jobs together can progress by W_j / (tau_j - a_j) in every round, by time-sharing,
   with tau_j - a_j = p_j max(1, d_j |A| / Y) for a single GPU type, if every job demands one GPU. *)
Theorem tau_one_gpu_jobs : k = 1%nat -> jobs_valid -> (forall j, (j < n)%nat -> runnable j) ->
  (forall j, (j < n)%nat -> d j = 1%nat) -> exists x : nat -> table,
  (forall t, packing n k Y d (fun j i => usable j i = true) (x t)) /\
  forall s j, (j < n)%nat ->
    sum n (fun v => served k (theta j) (of_job x j) (s + v)) = INR n * (W j / fair_fastest n j).
Proof.
  intros One Valid Runs D1. destruct (tau_equal_gangs 1 Valid Runs D1) as (x & P & E).
  { intros i _. apply Nat.divide_1_l. }
  exists x. split; [auto|]. intros s j J. rewrite E by auto.
  replace (fair_fastest n j) with (fair_part n j); [reflexivity|].
  destruct (home_spec n j Valid J (Runs j J)) as (B & U & V). destruct (Valid j J) as (_ & PW & Speed).
  specialize (Speed _ B U). pose proof (crowd_ge n j (home n j)) as C. unfold fair_part, fair_fastest.
  replace (home n j) with 0%nat in * by lia. unfold crowd, largest_in in *. rewrite One.
  cbn [largest nsum Nat.add]. rewrite U.
  rewrite !Rmax_right with (x := 0); [field; lra|lra|]. apply Rlt_le, Rdiv_lt_0_compat; lra.
Qed.

(* rho of (5) in a run, with tau_j - a_j = fair |A(t)| j *)
Definition run_rho (fair : nat -> nat -> R) (unit : nat -> R) (x : nat -> table) (j : nat) : nat -> R :=
  rho k (theta j) (W j) (unit j) (a j) (of_job x j) (fun t => fair (number_present x t) j).
(* The coefficients of (6); the switching costs s may depend on the plans so far. *)
Definition run_costs fair unit (s : (nat -> table) -> nat -> nat -> nat -> R) (x : nat -> table) (t j i : nat) : R :=
  coefficient (unit j) (INR (t - a j)) (INR (d j)) (W j) (theta j i) (s x t j i) (run_rho fair unit x j t).
Definition fft_run fair unit s (x : nat -> table) : Prop := fft_schedule (run_costs fair unit s x) x.

End Schedules.

(* The runs of FFT with theta / W in place of theta in rho theta and in (5), and 1 in place of W there; tau as
   printed, or as in hetopt. *)
Definition normalised_run n k Y d a W theta memory_suffices (own_part : bool) s (x : nat -> table) : Prop :=
  fft_run n k Y d a W theta memory_suffices
    ((if own_part then fair_part else fair_fastest) k Y d W theta memory_suffices) W s x.

Lemma scaled u v w : u <> 0 -> u * v / (u * w) = v / w.
Proof.
  intros U. destruct (Req_dec w 0) as [->|N]; [|field; auto]. rewrite Rmult_0_r. unfold Rdiv. rewrite Rinv_0. ring.
Qed.

Section OtherUnit.
Variables n k : nat.
Variables Y d a : nat -> nat.
Variable W : nat -> R.
Variable theta : nat -> nat -> R.
Variable memory_suffices : nat -> nat -> bool.
Variable u : R.
Hypothesis positive : 0 < u.
Let W' j := u * W j.
Let theta' j i := u * theta j i.

Lemma scaled_served x j t : served k (theta' j) (of_job x j) t = u * served k (theta j) (of_job x j) t.
Proof. unfold served. rewrite <- sum_scal. apply sum_ext; intros. unfold theta'. ring. Qed.

Lemma scaled_present : present k a W' theta' = present k a W theta.
Proof.
  do 3 (apply functional_extensionality; intro). unfold present. f_equal.
  assert (E : done k theta' x x0 x1 = u * done k theta x x0 x1).
  { unfold done. rewrite <- sum_scal. apply sum_ext; intros. apply scaled_served. }
  rewrite E. unfold W'. do 2 destruct Rlt_dec; auto; exfalso; nra.
Qed.

Lemma scaled_fair (own_part : bool) : (if own_part then fair_part else fair_fastest) k Y d W' theta' memory_suffices =
  (if own_part then fair_part else fair_fastest) k Y d W theta memory_suffices.
Proof.
  do 2 (apply functional_extensionality; intro). destruct own_part; unfold fair_part, fair_fastest, W', theta'.
  - rewrite <- (scaled u (W x0)) by lra. rewrite <- largest_in_scal by auto. do 2 f_equal.
    apply functional_extensionality; intros i. unfold Rdiv; ring.
  - f_equal. rewrite <- (scaled u (W x0)) by lra. now rewrite <- largest_in_scal.
Qed.

Lemma scaled_rho fair x j : run_rho n k a W' theta' fair W' x j = run_rho n k a W theta fair W x j.
Proof.
  apply functional_extensionality; intros t. unfold run_rho, number_present. rewrite scaled_present.
  induction t as [|t IH]; cbn [rho]; [reflexivity|]. rewrite IH. destruct (t <? a j)%nat; [reflexivity|].
  do 2 f_equal. unfold mu. f_equal. rewrite scaled_served. rewrite <- (scaled u _ (W j)) by lra. unfold W'.
  f_equal. unfold Rdiv. ring.
Qed.

Lemma units_irrelevant own_part s x :
  normalised_run n k Y d a W' theta' memory_suffices own_part s x <->
  normalised_run n k Y d a W theta memory_suffices own_part s x.
Proof.
  unfold normalised_run, fft_run, fft_schedule, can_run. rewrite scaled_present, scaled_fair.
  enough (E : forall fair, run_costs n k d a W' theta' fair W' s x = run_costs n k d a W theta fair W s x)
    by (rewrite E; reflexivity).
  intros fair. do 3 (apply functional_extensionality; intro). unfold run_costs, coefficient, phi.
  rewrite scaled_rho. unfold W', theta'. rewrite scaled by lra. do 3 f_equal.
  - rewrite <- (scaled u (_ * theta _ _)) by lra. f_equal. ring.
  - rewrite <- (scaled u (_ * W _)) by lra. f_equal. ring.
Qed.

End OtherUnit.

(* Claim fft/units-normalised: with theta_j^i / W_j in place of theta_j^i in rho_j theta_j^i and in equation (5), and
   1 in place of W_j there, the plans of FFT do not depend on the unit of work: W_j and theta_j^i of all jobs may be
   multiplied by the same u > 0. *)
Theorem units_normalised n k Y d a W theta memory_suffices u own_part s x : 0 < u ->
  (normalised_run n k Y d a (fun j => u * W j) (fun j i => u * theta j i) memory_suffices own_part s x <->
  normalised_run n k Y d a W theta memory_suffices own_part s x).
Proof. intros U. now apply units_irrelevant. Qed.


(* Two jobs of one round on one GPU, which run one after the other. *)
Definition in_turn : nat -> table := fun t => only t.
Definition unit_speed : nat -> nat -> R := fun _ _ => 1.
Definition enough : nat -> nat -> bool := fun _ _ => true.
Definition at_start : nat -> nat := fun _ => 0%nat.

Lemma unit_jobs n : jobs_valid n 1 one one ones unit_speed enough.
Proof. intros j _. unfold one, ones, unit_speed. split; [lia|split; intros; lra]. Qed.

Lemma unit_runnable j : runnable 1 one one enough j.
Proof. exists 0%nat. split; [lia|reflexivity]. Qed.

Lemma in_turn_done t j : done 1 unit_speed in_turn t j = if (j <? t)%nat then 1 else 0.
Proof.
  induction t as [|t IH]; [reflexivity|]. unfold done in *. cbn [sum]. rewrite IH.
  unfold served, of_job, in_turn, only, unit_speed. cbn [sum].
  destruct (Nat.ltb_spec j t), (Nat.ltb_spec j (S t)), (Nat.eqb_spec j t); cbn; lia || lra.
Qed.

Lemma in_turn_present t j : present 1 at_start ones unit_speed in_turn t j = (t <=? j)%nat.
Proof.
  unfold present. cbn. rewrite in_turn_done. unfold ones.
  destruct (Nat.ltb_spec j t), (Nat.leb_spec t j), Rlt_dec; auto; lia || lra.
Qed.

Lemma in_turn_fft : fft_schedule 2 1 one one at_start ones unit_speed enough (fun _ _ _ => 0) in_turn.
Proof.
  intros t. exists (in_turn t). split; [|constructor]. split.
  2:{ intros y _. unfold cost. cbn. lra. }
  assert (On : on 2 one (in_turn t) 0 = if (t <? 2)%nat then 1%nat else 0%nat) by (destruct t as [|[|t]]; reflexivity).
  assert (P : packing 2 1 one one (can_run 1 one one at_start ones unit_speed enough in_turn t) (in_turn t)).
  { split.
    - intros j i _ _. unfold in_turn, only. destruct (j =? t)%nat; auto.
    - intros j _. unfold runs, in_turn, only. cbn. destruct (j =? t)%nat; lia.
    - intros i I. replace i with 0%nat by lia. rewrite On. destruct (t <? 2)%nat; unfold one; lia.
    - intros j i _ _ N. unfold in_turn, only. destruct (Nat.eqb_spec j t) as [->|]; [|auto]. destruct N.
      split; [rewrite in_turn_present; now apply Nat.leb_le|reflexivity]. }
  apply full_most. split; [auto|]. split; [eauto|]. intros y [_ _ Cap Mem].
  specialize (Cap 0%nat ltac:(lia)). change (on 2 one y 0 <= 1)%nat in Cap. unfold used. cbn [nsum]. rewrite On.
  destruct (Nat.ltb_spec t 2); [lia|].
  assert (Z : on 2 one y 0 = 0%nat); [|lia]. apply nsum_zero; intros j J. rewrite Mem; [lia|auto|auto|].
  intros (A & _). rewrite in_turn_present in A. apply Nat.leb_le in A. lia.
Qed.

Example fft_is_packed_met : can_be_met fft_is_packed.
Proof. intros H. exact (H 2%nat 1%nat one one at_start ones unit_speed enough _ _ (unit_jobs 2) in_turn_fft). Qed.

(* The second job waits for one round, and both sides are 1. *)
Example thm_4_2_packed_met : can_be_met thm_4_2_packed.
Proof.
  intros H.
  destruct (fft_is_packed 2 1 one one at_start ones unit_speed enough _ _ (unit_jobs 2) in_turn_fft) as (S & P).
  apply (H 2%nat 1%nat one one at_start ones unit_speed enough in_turn 1%nat 1%nat (unit_jobs 2) S P); [lia|].
  intros t T. replace t with 0%nat by (unfold at_start in T; lia). reflexivity.
Qed.

Example mu_grows_constant_met : can_be_met mu_grows_constant.
Proof.
  intros H.
  destruct (fft_is_packed 2 1 one one at_start ones unit_speed enough _ _ (unit_jobs 2) in_turn_fft) as (S & P).
  apply (H 2%nat 1%nat one one at_start ones unit_speed enough in_turn 0%nat 1%nat (unit_jobs 2) S);
    [lia|apply unit_runnable|auto|unfold at_start; lia].
Qed.

Example tau_average_met : can_be_met tau_average.
Proof. intros H. exact (H 2%nat 1%nat one one ones unit_speed enough (unit_jobs 2) (fun j _ => unit_runnable j)). Qed.

Example tau_equal_gangs_met : can_be_met tau_equal_gangs.
Proof.
  intros H. apply (H 2%nat 1%nat one one ones unit_speed enough 1%nat (unit_jobs 2) (fun j _ => unit_runnable j)).
  - reflexivity.
  - intros; apply Nat.divide_1_l.
Qed.

Example tau_one_gpu_jobs_met : can_be_met tau_one_gpu_jobs.
Proof.
  intros H. apply (H 2%nat 1%nat one one ones unit_speed enough eq_refl (unit_jobs 2) (fun j _ => unit_runnable j)).
  reflexivity.
Qed.

Example units_normalised_met : can_be_met units_normalised.
Proof.
  intros H. exact (H 2%nat 1%nat one one at_start ones unit_speed enough 3 true (fun _ _ _ _ => 0) in_turn ltac:(lra)).
Qed.
