(* A-SRPT: iteration times of jobs in pipeline stages, and their schedule on a cluster of GPUs, led by SRPT on one
   virtual machine. Stages, replicas, servers and jobs are numbered from 0.

   Iterations are timed by eqs. (4) to (7), with (5) and (6) repaired. Mappers such as Heavy-Edge and selectors of GPUs
   are arbitrary functions with the properties that the proofs need; Heavy-Edge and a selector are defined, and have
   them. Schedules of the cluster are starts and placements in continuous time, with half-open intervals in eq. (3);
   A-SRPT's schedule is the one that Algorithm 1 decides on job by job (asrpt), which exists (run_exists). Bounds in
   terms of an optimum are stated for every schedule. *)
From Coq Require Import Reals Lra Lia PeanoNat List Bool Classical Permutation FunctionalExtensionality.
From Hetopt Require Import Sums Hypotheses Srpt.
Import ListNotations.
Open Scope R_scope.

(* -- jobs and clusters -- *)

Record job := Job {
  stages : nat;               (* S_i *)
  replicas : nat -> nat;      (* k_s of each stage *)
  compute : nat -> R;         (* p^f_s + p^b_s, seconds *)
  inputs : nat -> R;          (* d^in_s, bytes of each replica *)
  outputs : nat -> R;         (* d^out_s, bytes of each replica *)
  parameters : nat -> R;      (* h_s, bytes *)
  arrival : R;                (* r_i *)
  iterations : R;             (* n_i *)
  predicted : R               (* n~_i *)
}.

Record cluster := Cluster {
  servers : nat;              (* M *)
  per_server : nat;           (* g, GPUs of a server *)
  inter : R;                  (* B_inter, bytes per second *)
  intra : R                   (* B_intra *)
}.

(* g_i: one GPU for each replica; and G = M g. *)
Definition gpus (J : job) : nat := nsum (stages J) (replicas J).
Definition all_gpus (c : cluster) : nat := (servers c * per_server c)%nat.

(* The first stage has no input, the last one no output, and what one stage sends the next one receives. *)
Definition job_ok (J : job) : Prop :=
  (1 <= stages J)%nat /\
  (forall s, (s < stages J)%nat -> (1 <= replicas J s)%nat /\
    0 <= compute J s /\ 0 <= inputs J s /\ 0 <= outputs J s /\ 0 <= parameters J s) /\
  inputs J 0 = 0 /\ outputs J (stages J - 1) = 0 /\
  (forall s, (S s < stages J)%nat -> INR (replicas J s) * outputs J s = INR (replicas J (S s)) * inputs J (S s)) /\
  0 <= arrival J /\ 0 <= iterations J /\ 0 <= predicted J.

Definition cluster_ok (c : cluster) : Prop := (1 <= per_server c)%nat /\ 0 < inter c /\ 0 < intra c.

(* B_inter / g: the part of the network card that comes with each GPU. *)
Definition share (c : cluster) : R := inter c / INR (per_server c).

(* The server of each replica, and x_s^m: replicas of each stage on each server. *)
Definition locations := nat -> nat -> nat.
Definition table := nat -> nat -> nat.
Definition counts (J : job) (w : locations) : table :=
  fun s m => nsum (replicas J s) (fun r => if Nat.eqb (w s r) m then 1%nat else O).

(* -- the time of an iteration -- *)

Section Iteration.
Variables (c : cluster) (J : job).
Let k (s : nat) : R := INR (replicas J s).

(* 2 d^out_{s-1} / k_s for stages s - 1 and s; here for s and s + 1. *)
Definition pair_bytes (s : nat) : R := 2 * outputs J s / k (S s).

(* eq. (5), repaired. *)
Definition comm (x : table) (s m : nat) : R :=
  (2 * inputs J s * ((k (s - 1) - INR (x (s - 1)%nat m)) / k (s - 1))
    + 2 * outputs J s * ((k (s + 1) - INR (x (s + 1)%nat m)) / k (s + 1))) * INR (x s m)
  / (INR (x s m) / INR (per_server c) * inter c)
  + (2 * inputs J s * (INR (x (s - 1)%nat m) / k (s - 1)) + 2 * outputs J s * (INR (x (s + 1)%nat m) / k (s + 1)))
    / intra c.

(* eq. (6), repaired. *)
Definition all_reduce (x : table) (s m : nat) : R :=
  if Nat.ltb (x s m) (replicas J s)
  then 2 * (k s - 1) * parameters J s / (k s * (INR (x s m) / INR (per_server c)) * inter c)
  else 2 * (k s - 1) * parameters J s / (k s * intra c).

(* eqs. (4) to (7): beta_s^m, 0 where stage s has no replica on server m. *)
Definition beta (x : table) (s m : nat) : R :=
  if Nat.eqb (x s m) 0 then 0 else compute J s + comm x s m + all_reduce x s m.

(* eq. (7): alpha = max over s and m of beta_s^m. *)
Definition alpha (x : table) : R := largest (stages J) (fun s => largest (servers c) (beta x s)).

(* eq. (2), and no server is overfull. *)
Definition placement (x : table) : Prop :=
  (forall s, (s < stages J)%nat -> nsum (servers c) (x s) = replicas J s) /\
  (forall m, (m < servers c)%nat -> (nsum (stages J) (fun s => x s m) <= per_server c)%nat).

(* Seconds that replica r of stage s spends on exchanges, pair by pair. *)
Definition bandwidth (m m' : nat) : R := if Nat.eqb m m' then intra c else share c.
Definition exchange_by_pairs (w : locations) (s r : nat) : R :=
  match s with
  | O => 0
  | S q => sum (replicas J q) (fun i => pair_bytes q / bandwidth (w s r) (w q i))
  end +
  (if Nat.ltb (S s) (stages J)
   then sum (replicas J (S s)) (fun i => pair_bytes s / bandwidth (w s r) (w (S s) i)) else 0).

End Iteration.

(* alpha^max as printed: on g_i servers, each with a single replica. *)
Definition one_each (c : cluster) (J : job) : cluster := Cluster (gpus J) (per_server c) (inter c) (intra c).
Definition apart (J : job) : table := fun s m =>
  if andb (Nat.leb (nsum s (replicas J)) m) (Nat.ltb m (nsum (S s) (replicas J))) then 1%nat else O.
Definition alpha_max (c : cluster) (J : job) : R := alpha (one_each c J) J (apart J).

(* B_intra >= B_inter / g, and B_intra >= B_inter. *)
Definition fast_inside (c : cluster) : Prop := share c <= intra c.
Definition fast_links (c : cluster) : Prop := inter c <= intra c.

(* For examples: stages of two replicas and of one, on two servers of two GPUs; q iterations are predicted. *)
Definition example_job (q : R) : job := Job 2 (fun s => match s with O => 2 | _ => 1 end)%nat (fun _ => 1)
  (fun s => match s with O => 0 | _ => 2 end) (fun s => match s with O => 1 | _ => 0 end) (fun _ => 1) 0 2 q.
Definition example_cluster : cluster := Cluster 2 2 2 4.

Lemma example_job_ok q : 0 <= q -> job_ok (example_job q).
Proof.
  unfold job_ok. cbn. intros Q. split; [lia|split; [|split; [lra|split; [lra|split; [|lra]]]]].
  - intros [|s] _; cbn; split; lia || lra.
  - intros [|s] Hs; cbn; [lra|lia].
Qed.
Lemma example_cluster_ok : cluster_ok example_cluster.
Proof. repeat split; cbn; try lia; lra. Qed.

(* Claim asrpt/link-weight: replicas of stages s - 1 and s exchange 2 d^out_{s-1} / k_s = 2 d^in_s / k_{s-1} bytes.
   In an even split all pairs i, j of replicas exchange the same: forward i j and backward i j. *)
Theorem link_weight (k k' : nat) (sent received : R) (forward backward : nat -> nat -> R) :
  (1 <= k)%nat -> (1 <= k')%nat ->
  (forall i j i' j', (i < k)%nat -> (i' < k)%nat -> (j < k')%nat -> (j' < k')%nat ->
    forward i j = forward i' j' /\ backward i j = backward i' j') ->
  (forall i, (i < k)%nat -> sum k' (fun j => forward i j) = sent /\ sum k' (fun j => backward i j) = sent) ->
  (forall j, (j < k')%nat -> sum k (fun i => forward i j) = received /\ sum k (fun i => backward i j) = received) ->
  forall i j, (i < k)%nat -> (j < k')%nat ->
  forward i j + backward i j = 2 * sent / INR k' /\ forward i j + backward i j = 2 * received / INR k.
Proof.
  intros K K' Even Rows Columns i j Hi Hj.
  assert (P : 0 < INR k /\ 0 < INR k') by (split; apply lt_0_INR; lia).
  destruct (Rows i Hi) as (R1 & R2), (Columns j Hj) as (C1 & C2).
  rewrite (sum_ext k' _ (fun _ => forward i j)) in R1 by (intros; now apply Even).
  rewrite (sum_ext k' _ (fun _ => backward i j)) in R2 by (intros; now apply Even).
  rewrite (sum_ext k _ (fun _ => forward i j)) in C1 by (intros; now apply Even).
  rewrite (sum_ext k _ (fun _ => backward i j)) in C2 by (intros; now apply Even).
  rewrite sum_const in R1, R2, C1, C2. split.
  - replace (2 * sent) with (INR k' * forward i j + INR k' * backward i j) by lra. field; lra.
  - replace (2 * received) with (INR k * forward i j + INR k * backward i j) by lra. field; lra.
Qed.

Example link_weight_met : can_be_met link_weight.
Proof.
  intros H. apply (H 2%nat 3%nat 3 2 (fun _ _ => 1) (fun _ _ => 1)) with (i := O) (j := O); auto; try lia.
  - intros; cbn; lra.
  - intros; cbn; lra.
Qed.

Lemma INR_positive (n : nat) : (1 <= n)%nat -> 0 < INR n.
Proof. intros; apply lt_0_INR; lia. Qed.

Lemma share_positive c : cluster_ok c -> 0 < share c.
Proof. intros (G & I & _). apply Rdiv_lt_0_compat; [exact I|now apply INR_positive]. Qed.

(* eq. (5) with the network card's share. *)
Lemma comm_simple c J x s m : cluster_ok c -> (1 <= x s m)%nat -> comm c J x s m =
  (2 * inputs J s * ((INR (replicas J (s - 1)) - INR (x (s - 1)%nat m)) / INR (replicas J (s - 1)))
    + 2 * outputs J s * ((INR (replicas J (s + 1)) - INR (x (s + 1)%nat m)) / INR (replicas J (s + 1)))) / share c
  + (2 * inputs J s * (INR (x (s - 1)%nat m) / INR (replicas J (s - 1)))
    + 2 * outputs J s * (INR (x (s + 1)%nat m) / INR (replicas J (s + 1)))) / intra c.
Proof.
  intros (G & I & _) X. unfold comm, share. f_equal. apply INR_positive in G, X.
  match goal with |- ?a * _ / _ = _ => generalize a end. intros a. field. lra.
Qed.

Lemma sum_by_server n (f : nat -> nat) m a b : sum n (fun i => if Nat.eqb m (f i) then a else b)
  = INR (nsum n (fun i => if Nat.eqb (f i) m then 1%nat else O)) * a
    + (INR n - INR (nsum n (fun i => if Nat.eqb (f i) m then 1%nat else O))) * b.
Proof.
  induction n; cbn [sum nsum]; [cbn; ring|]. rewrite IHn, plus_INR, S_INR, (Nat.eqb_sym m (f n)).
  destruct (Nat.eqb (f n) m); cbn [INR]; ring.
Qed.

(* Claim asrpt/eq-5-repaired: a replica's exchanges with the adjacent stages take eq. (5), repaired. *)
Theorem eq_5_repaired c J (w : locations) s r : cluster_ok c -> job_ok J ->
  (s < stages J)%nat -> (r < replicas J s)%nat -> exchange_by_pairs c J w s r = comm c J (counts J w) s (w s r).
Proof.
  intros Hc (_ & Each & First & Last & Flow & _) Hs Hr. set (m := w s r).
  rewrite comm_simple; [|exact Hc|].
  2: { unfold counts. pose proof (nsum_term (replicas J s) (fun i => if Nat.eqb (w s i) m then 1%nat else O) r Hr) as T.
       cbn in T. unfold m in T at 1. rewrite Nat.eqb_refl in T. exact T. }
  assert (Sum : forall q bytes, (1 <= replicas J q)%nat ->
    sum (replicas J q) (fun i => bytes / INR (replicas J q) / bandwidth c m (w q i)) =
    bytes * ((INR (replicas J q) - INR (counts J w q m)) / INR (replicas J q)) / share c
    + bytes * (INR (counts J w q m) / INR (replicas J q)) / intra c).
  { intros q bytes Q. apply INR_positive in Q. pose proof (share_positive c Hc). destruct Hc as (_ & _ & I).
    rewrite (sum_ext _ _ (fun i => if Nat.eqb m (w q i) then bytes / INR (replicas J q) / intra c
      else bytes / INR (replicas J q) / share c)).
    - rewrite sum_by_server. fold (counts J w q m). field. lra.
    - intros i _. unfold bandwidth. now destruct (Nat.eqb m (w q i)). }
  unfold exchange_by_pairs, pair_bytes. fold m.
  assert (Before : match s with
    | O => 0
    | S q => sum (replicas J q) (fun i => 2 * outputs J q / INR (replicas J (S q)) / bandwidth c m (w q i))
    end = 2 * inputs J s * ((INR (replicas J (s - 1)) - INR (counts J w (s - 1)%nat m)) / INR (replicas J (s - 1))) /
      share c
      + 2 * inputs J s * (INR (counts J w (s - 1)%nat m) / INR (replicas J (s - 1))) / intra c).
  { destruct s as [|q]; [rewrite First; unfold Rdiv; ring|]. replace (S q - 1)%nat with q by lia.
    destruct (Each q ltac:(lia)) as (K & _), (Each (S q) Hs) as (K' & _). rewrite <- Sum by exact K.
    apply sum_ext; intros i _. f_equal. specialize (Flow q Hs). apply INR_positive in K, K'.
    replace (2 * outputs J q) with (2 * (INR (replicas J (S q)) * inputs J (S q)) / INR (replicas J q)).
    - field; lra.
    - rewrite <- Flow. field; lra. }
  rewrite Before. replace (s + 1)%nat with (S s) by lia.
  destruct (Nat.ltb_spec (S s) (stages J)) as [L|L].
  - destruct (Each (S s) L) as (K & _). rewrite (Sum (S s) (2 * outputs J s) K). unfold Rdiv. ring.
  - replace s with (stages J - 1)%nat by lia. rewrite Last. unfold Rdiv. ring.
Qed.

Example eq_5_repaired_met : can_be_met eq_5_repaired.
Proof.
  intros H. apply (H example_cluster (example_job 1) (fun s _ => s) 0%nat 0%nat); auto using example_cluster_ok,
    example_job_ok, Rle_0_1;
    cbn; lia.
Qed.

(* -- AllReduce -- *)

Section Ring.
Variable k : nat.

(* In step t replica (q + t) mod k sends chunk q to the next replica, which adds it to its own in the first k - 1 steps,
   and keeps it in the k - 1 steps that follow. *)
Fixpoint ring (v : nat -> nat -> R) (t : nat) : nat -> nat -> R :=
  match t with
  | O => v
  | S t => fun i q =>
      let sent := ring v t ((q + t) mod k) q in
      if Nat.eqb i ((q + t + 1) mod k) then if Nat.ltb t (k - 1) then ring v t i q + sent else sent else ring v t i q
  end.

(* Bytes that replica i sends in all steps; h bytes are split into k chunks. *)
Definition ring_sent (h : R) (i : nat) : R :=
  sum (2 * (k - 1)) (fun t => sum k (fun q => if Nat.eqb ((q + t) mod k) i then h / INR k else 0)).

Lemma rotated q i j : (i < k)%nat -> (j < k)%nat -> ((q + i) mod k = (q + j) mod k)%nat -> i = j.
Proof.
  intros Hi Hj E. pose proof (Nat.div_mod (q + i) k ltac:(lia)) as I.
  pose proof (Nat.div_mod (q + j) k ltac:(lia)) as J.
  rewrite <- E in J. set (a := ((q + i) / k)%nat) in *. set (b := ((q + j) / k)%nat) in *.
  assert (a = b); [|subst; lia]. destruct (Nat.lt_trichotomy a b) as [L|[L|L]]; [|exact L|]; exfalso.
  - assert (k * (a + 1) <= k * b)%nat by (apply Nat.mul_le_mono_l; lia). lia.
  - assert (k * (b + 1) <= k * a)%nat by (apply Nat.mul_le_mono_l; lia). lia.
Qed.

Lemma position q i : (q < k)%nat -> (i < k)%nat -> exists j, (j < k)%nat /\ i = ((q + j) mod k)%nat.
Proof.
  intros Hq Hi. destruct (le_lt_dec q i).
  - exists (i - q)%nat. split; [lia|]. rewrite Nat.mod_small; lia.
  - exists (i + k - q)%nat. split; [lia|]. replace (q + (i + k - q))%nat with (i + 1 * k)%nat by lia.
    rewrite Nat.mod_add, Nat.mod_small; lia.
Qed.

Lemma ring_reduces v q t j : (t <= k - 1)%nat -> (j < k)%nat -> ring v t ((q + j) mod k) q =
  if Nat.leb j t then sum (S j) (fun l => v ((q + l) mod k) q) else v ((q + j) mod k) q.
Proof.
  revert j. induction t as [|t IH]; intros j Ht Hj; cbn [ring].
  - destruct (Nat.leb_spec j 0); [|reflexivity]. replace j with O by lia. cbn; ring.
  - rewrite (proj2 (Nat.ltb_lt t (k - 1))) by lia.
    destruct (Nat.eqb_spec ((q + j) mod k) ((q + t + 1) mod k)) as [E|E].
    + assert (j = S t) as -> by (apply (rotated q); [lia|lia|]; rewrite E; f_equal; lia).
      rewrite (IH t), IH by lia. rewrite Nat.leb_refl. rewrite (proj2 (Nat.leb_gt (S t) t)), Nat.leb_refl by lia.
      cbn [sum]. ring.
    + rewrite IH by lia. assert (j <> S t) by (intros ->; apply E; f_equal; lia).
      destruct (Nat.leb_spec j t), (Nat.leb_spec j (S t)); auto; lia.
Qed.

Lemma ring_gathers v q u j : (u <= k - 1)%nat -> (j < u \/ j = k - 1)%nat -> (j < k)%nat ->
  ring v (k - 1 + u) ((q + j) mod k) q = sum k (fun l => v ((q + l) mod k) q).
Proof.
  revert j. induction u as [|u IH]; intros j Hu Hj Jk.
  - rewrite Nat.add_0_r. replace j with (k - 1)%nat by lia. rewrite ring_reduces, Nat.leb_refl by lia.
    now replace (S (k - 1)) with k by lia.
  - replace (k - 1 + S u)%nat with (S (k - 1 + u)) by lia. cbn [ring].
    rewrite (proj2 (Nat.ltb_ge (k - 1 + u) (k - 1))) by lia.
    destruct (Nat.eqb_spec ((q + j) mod k) ((q + (k - 1 + u) + 1) mod k)) as [E|E].
    + destruct u as [|u].
      * replace (k - 1 + 0)%nat with (k - 1)%nat at 2 by lia. apply IH; lia.
      * replace ((q + (k - 1 + S u)) mod k)%nat with ((q + u) mod k)%nat; [apply IH; lia|].
        replace (q + (k - 1 + S u))%nat with (q + u + 1 * k)%nat by lia. now rewrite Nat.mod_add by lia.
    + apply IH; try lia. assert (j <> u); [|lia]. intros ->. apply E.
      replace (q + (k - 1 + u) + 1)%nat with (q + u + 1 * k)%nat by lia. now rewrite Nat.mod_add by lia.
Qed.

Lemma ring_sent_bytes h i : (i < k)%nat -> ring_sent h i = 2 * ((INR k - 1) / INR k) * h.
Proof.
  intros Hi. unfold ring_sent. rewrite (sum_ext _ _ (fun _ => h / INR k)).
  - rewrite sum_const, mult_INR, minus_INR by lia. cbn [INR]. field. apply not_0_INR; lia.
  - intros t _. rewrite (sum_ext k _ (fun q => if Nat.eqb ((t + q) mod k) i then h / INR k else 0))
      by (intros; now rewrite Nat.add_comm).
    rewrite (sum_cycle k t (fun l => if Nat.eqb l i then h / INR k else 0)). now apply sum_at.
Qed.
End Ring.

(* Claim asrpt/allreduce-mean (1 of 2): the ring. At the end each replica has the sums of all chunks; each sends
   2 (k-1)/k h bytes, all of them to the next replica. *)
Theorem all_reduce_ring k (v : nat -> nat -> R) h i : (i < k)%nat ->
  (forall q, (q < k)%nat -> ring k v (2 * (k - 1)) i q = sum k (fun j => v j q)) /\
  ring_sent k h i = 2 * ((INR k - 1) / INR k) * h /\
  (forall q t, ((q + t) mod k = i -> (q + t + 1) mod k = (i + 1) mod k)%nat).
Proof.
  intros Hi. split; [|split; [now apply ring_sent_bytes|]].
  - intros q Hq. destruct (position k q i Hq Hi) as (j & Hj & ->).
    replace (2 * (k - 1))%nat with (k - 1 + (k - 1))%nat by lia.
    rewrite ring_gathers by lia. apply (sum_cycle k q (fun l => v l q)).
  - intros q t <-. now rewrite Nat.add_mod_idemp_l by lia.
Qed.

Example all_reduce_ring_met : can_be_met all_reduce_ring.
Proof. intros H. apply (H 3%nat (fun _ _ => 0) 1 2%nat). lia. Qed.

(* A tree on k replicas: each but the root has a parent, which is nearer to the root. *)
Definition rooted_tree (k : nat) (parent : nat -> nat) (root : nat) : Prop := (root < k)%nat /\
  exists depth : nat -> nat, forall v, (v < k)%nat -> v <> root ->
    (parent v < k)%nat /\ (depth (parent v) < depth v)%nat.

(* Bytes from a to b in a tree that reduces half of h bytes: a sums for its parent, the total sums for its children. *)
Definition tree_message (parent : nat -> nat) (root : nat) (h : R) (a b : nat) : R :=
  (if andb (negb (Nat.eqb a root)) (Nat.eqb (parent a) b) then h / 2 else 0) +
  (if andb (negb (Nat.eqb b root)) (Nat.eqb (parent b) a) then h / 2 else 0).
Definition tree_sent (k : nat) (parent : nat -> nat) (root : nat) (h : R) (a : nat) : R :=
  sum k (tree_message parent root h a).

Lemma tree_total k parent root h : rooted_tree k parent root -> sum k (tree_sent k parent root h) = (INR k - 1) * h.
Proof.
  intros (Hr & depth & Tree). unfold tree_sent, tree_message.
  set (up := fun a b => if andb (negb (Nat.eqb a root)) (Nat.eqb (parent a) b) then h / 2 else 0).
  assert (Up : sum k (fun a => sum k (fun b => up a b)) = (INR k - 1) * (h / 2)).
  { rewrite (sum_ext k _ (fun a => h / 2 - (if Nat.eqb a root then h / 2 else 0))).
    - rewrite sum_minus, sum_const, sum_at by exact Hr. ring.
    - intros a Ha. unfold up. destruct (Nat.eqb_spec a root) as [|N]; cbn.
      + rewrite sum_zero; [ring|auto].
      + destruct (Tree a Ha N) as (P & _). rewrite (sum_ext k _ (fun b => if Nat.eqb b (parent a) then h / 2 else 0)).
        * rewrite sum_at by exact P. ring.
        * intros b _. now rewrite Nat.eqb_sym. }
  rewrite (sum_ext k _ (fun a => sum k (fun b => up a b) + sum k (fun b => up b a))).
  - rewrite sum_plus, Up, <- (sum_swap k k up), Up. field.
  - intros a _. apply sum_plus.
Qed.

(* Claim asrpt/allreduce-mean (2 of 2): two trees. Each edge of each tree carries h bytes, the replicas send
   2 (k-1)/k h bytes on average. *)
Theorem all_reduce_trees k (parent parent' : nat -> nat) (root root' : nat) h :
  rooted_tree k parent root -> rooted_tree k parent' root' ->
  (forall v, (v < k)%nat -> v <> root ->
    tree_message parent root h v (parent v) + tree_message parent root h (parent v) v = h) /\
  (forall v, (v < k)%nat -> v <> root' ->
    tree_message parent' root' h v (parent' v) + tree_message parent' root' h (parent' v) v = h) /\
  sum k (fun a => tree_sent k parent root h a + tree_sent k parent' root' h a) / INR k = 2 * ((INR k - 1) / INR k) * h.
Proof.
  assert (Edge : forall parent root, rooted_tree k parent root -> forall v, (v < k)%nat -> v <> root ->
    tree_message parent root h v (parent v) + tree_message parent root h (parent v) v = h).
  { clear. intros parent root (_ & depth & Tree) v Hv N. destruct (Tree v Hv N) as (P & D).
    assert (E : andb (negb (Nat.eqb (parent v) root)) (Nat.eqb (parent (parent v)) v) = false).
    { destruct (Nat.eqb_spec (parent v) root) as [|N']; [reflexivity|]. destruct (Tree _ P N') as (_ & D').
      cbn. apply Nat.eqb_neq. intros E. rewrite E in D'. lia. }
    unfold tree_message. rewrite E, Nat.eqb_refl. apply Nat.eqb_neq in N. rewrite N. cbn. lra. }
  intros T T'. split; [now apply Edge|split; [now apply Edge|]].
  rewrite sum_plus, (tree_total k parent root h T), (tree_total k parent' root' h T').
  field. apply not_0_INR. destruct T; lia.
Qed.

Example all_reduce_trees_met : can_be_met all_reduce_trees.
Proof.
  intros H. apply (H 3%nat (fun _ => 0%nat) (fun v => match v with 1 => 2 | _ => 1 end)%nat 0%nat 2%nat 1).
  - split; [lia|]. exists (fun v => v). intros; lia.
  - split; [lia|]. exists (fun v => match v with 2 => 0 | 1 => 1 | _ => 2 end)%nat.
    intros [|[|[|v]]]; intros; lia.
Qed.

(* Seconds of the ring's edge from the i-th replica of stage s: within a server, or over the x shares of its card. *)
Definition edge_seconds (c : cluster) (J : job) (w : locations) (s i : nat) : R :=
  ring_sent (replicas J s) (parameters J s) i /
  (if Nat.eqb (w s i) (w s ((i + 1) mod replicas J s)%nat) then intra c
   else INR (counts J w s (w s i)) / INR (per_server c) * inter c).

Lemma count_all n (f : nat -> nat) m : nsum n (fun i => if Nat.eqb (f i) m then 1%nat else O) = n ->
  forall i, (i < n)%nat -> f i = m.
Proof.
  assert (Le : forall n, (nsum n (fun i => if Nat.eqb (f i) m then 1%nat else O) <= n)%nat).
  { clear. induction n; cbn; [lia|]. destruct Nat.eqb; lia. }
  induction n as [|n IH]; cbn; intros H i Hi; [lia|]. specialize (Le n).
  destruct (Nat.eqb_spec (f n) m) as [E|]; [|lia]. destruct (Nat.eq_dec i n) as [->|]; [exact E|]. apply IH; lia.
Qed.

(* Claim asrpt/eq-6-repaired: the slowest edge that starts on server m, in a ring in any order. *)
Theorem eq_6_repaired c J (w : locations) s m : cluster_ok c -> job_ok J -> fast_links c -> (s < stages J)%nat ->
  (1 <= counts J w s m <= per_server c)%nat ->
  largest (replicas J s) (fun i => if Nat.eqb (w s i) m then edge_seconds c J w s i else 0)
  = all_reduce c J (counts J w) s m.
Proof.
  intros Hc (_ & Each & _) Fast Hs (X1 & Xg). destruct (Each s Hs) as (K & _ & _ & _ & H).
  set (k := replicas J s) in *. set (x := counts J w s m) in *. unfold all_reduce. fold k x.
  destruct Hc as (G & I & B). unfold fast_links in Fast.
  assert (P : 0 < INR k /\ 0 < INR x /\ 0 < INR (per_server c)) by (repeat split; apply INR_positive; lia).
  set (bytes := 2 * ((INR k - 1) / INR k) * parameters J s).
  assert (Bytes : 0 <= bytes).
  { unfold bytes. assert (1 <= INR k) by (apply (le_INR 1); lia).
    repeat apply Rmult_le_pos; try lra. apply Rlt_le, Rinv_0_lt_compat; lra. }
  set (card := INR x / INR (per_server c) * inter c).
  assert (Out : 0 < card <= intra c).
  { unfold card. assert (0 < INR x / INR (per_server c)) by (apply Rdiv_lt_0_compat; lra).
    split; [apply Rmult_lt_0_compat; lra|]. apply Rle_trans with (1 * inter c); [|lra].
    apply Rmult_le_compat_r; [lra|]. apply Rmult_le_reg_r with (INR (per_server c)); [lra|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_l, Rmult_1_r by lra. now apply le_INR. }
  assert (Edge : forall i, (i < k)%nat -> w s i = m -> edge_seconds c J w s i =
    bytes / if Nat.eqb m (w s ((i + 1) mod k)%nat) then intra c else card).
  { intros i Hi Wi. unfold edge_seconds. fold k. rewrite ring_sent_bytes, Wi by exact Hi. reflexivity. }
  assert (Slow : bytes / intra c <= bytes / card).
  { apply Rmult_le_compat_l; [exact Bytes|]. apply Rinv_le_contravar; lra. }
  assert (Nonneg : 0 <= bytes / card) by (apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]).
  destruct (Nat.ltb_spec x k) as [L|L].
  - assert (Leaves : exists i, (i < k)%nat /\ w s i = m /\ w s ((i + 1) mod k)%nat <> m).
    { apply NNPP. intros Stays. destruct (nsum_positive k (fun i => if Nat.eqb (w s i) m then 1%nat else O))
        as (a & Ha & Pa); [exact X1|].
      assert (All : forall j, w s ((a + j) mod k)%nat = m).
      { induction j as [|j IH].
        - rewrite Nat.add_0_r, Nat.mod_small by exact Ha. destruct (Nat.eqb_spec (w s a) m); [assumption|lia].
        - apply NNPP. intros Out'. apply Stays. exists ((a + j) mod k)%nat.
          split; [apply Nat.mod_upper_bound; lia|split; [exact IH|]].
          rewrite Nat.add_mod_idemp_l by lia. now replace (a + j + 1)%nat with (a + S j)%nat by lia. }
      enough (x = k) by lia. unfold x, counts. fold k. rewrite <- (nsum_cycle k a), (nsum_ext k _ (fun _ => 1%nat)).
      - apply nsum_ones.
      - intros j _. now rewrite All, Nat.eqb_refl. }
    destruct Leaves as (i & Hi & Wi & Ni). rewrite (largest_at k _ i Hi).
    + rewrite Wi, Nat.eqb_refl, Edge by assumption. apply not_eq_sym, Nat.eqb_neq in Ni. rewrite Ni.
      unfold bytes, card. field. lra.
    + rewrite Wi, Nat.eqb_refl, Edge by assumption. apply not_eq_sym, Nat.eqb_neq in Ni. now rewrite Ni.
    + intros j Hj. rewrite Wi, Nat.eqb_refl, (Edge i) by assumption. apply not_eq_sym, Nat.eqb_neq in Ni. rewrite Ni.
      destruct (Nat.eqb_spec (w s j) m) as [Wj|]; [|exact Nonneg]. rewrite (Edge j) by assumption.
      destruct (Nat.eqb m (w s ((j + 1) mod k)%nat)); [exact Slow|apply Rle_refl].
  - assert (All : forall i, (i < k)%nat -> w s i = m).
    { apply count_all. fold (counts J w s m). apply Nat.le_antisymm; [|exact L].
      unfold counts. fold k. clear. induction k; cbn; [lia|]. destruct Nat.eqb; lia. }
    rewrite (largest_ext k _ (fun _ => bytes / intra c)).
    + rewrite (largest_at k _ 0%nat); [unfold bytes; field; lra|lia| |intros; lra].
      apply Rmult_le_pos; [exact Bytes|apply Rlt_le, Rinv_0_lt_compat; lra].
    + intros i Hi. rewrite (All i Hi), Nat.eqb_refl, Edge by auto.
      now rewrite (All _ (Nat.mod_upper_bound (i + 1) k ltac:(lia))), Nat.eqb_refl.
Qed.

Example eq_6_repaired_met : can_be_met eq_6_repaired.
Proof.
  intros H. apply (H example_cluster (example_job 1) (fun s r => r) 0%nat 1%nat);
    auto using example_cluster_ok, example_job_ok, Rle_0_1; try (unfold fast_links; cbn; lra); cbn; lia.
Qed.

(* -- iterations in a pipeline -- *)

(* f_{i,s} = max(f_{i-1,s}, f_{i,s-1}) + beta_s: when stage s completes iteration i; b s = beta_s. *)
Fixpoint passes (b before : nat -> R) (s : nat) : R :=
  Rmax (before s) (match s with O => 0 | S q => passes b before q end) + b s.
Fixpoint completed (b : nat -> R) (n : nat) : nat -> R :=
  match n with O => fun _ => 0 | S n => passes b (completed b n) end.

Lemma completed_at b n s : (forall q, 0 <= b q) -> completed b (S n) s = sum (S s) b + INR n * largest (S s) b.
Proof.
  intros B. revert s. induction n as [|n IH].
  - intros s. cbn [completed INR]. rewrite Rmult_0_l, Rplus_0_r. induction s as [|s IHs]; cbn [passes].
    + rewrite Rmax_left by lra. reflexivity.
    + rewrite IHs. cbn [sum]. rewrite Rmax_right; [reflexivity|].
      assert (0 <= sum s b) by (apply sum_nonneg; auto). specialize (B s). lra.
  - assert (N : 0 <= INR n) by apply pos_INR.
    induction s as [|s IHs]; change (completed b (S (S n))) with (passes b (completed b (S n))) in *; cbn [passes].
    + rewrite IH, S_INR. specialize (B 0%nat). cbn [sum largest]. rewrite (Rmax_right 0 (b 0%nat)) by exact B.
      assert (0 <= INR n * b 0%nat) by (apply Rmult_le_pos; lra). rewrite Rmax_left; lra.
    + rewrite IHs, IH, S_INR. change (sum (S (S s)) b) with (sum (S s) b + b (S s)).
      change (largest (S (S s)) b) with (Rmax (largest (S s) b) (b (S s))).
      pose proof (largest_nonneg (S s) b) as L0. specialize (B (S s)).
      set (L := largest (S s) b) in *. set (d := b (S s)) in *. set (T := sum (S s) b).
      destruct (Rle_dec L d) as [Ld|Ld].
      * rewrite (Rmax_right L d) by exact Ld. assert (INR n * L <= INR n * d) by (apply Rmult_le_compat_l; lra).
        rewrite Rmax_left; lra.
      * rewrite (Rmax_left L d) by lra. assert (INR n * d <= INR n * L) by (apply Rmult_le_compat_l; lra).
        rewrite Rmax_right; lra.
Qed.

Lemma largest_attained n f : (1 <= n)%nat -> (forall i, (i < n)%nat -> 0 <= f i) ->
  exists a, (a < n)%nat /\ largest n f = f a.
Proof.
  intros N Pos. destruct (least_index n (fun _ => True) (fun i => - f i)) as (a & Ha & _ & Least); [exists O; auto|].
  exists a. split; [exact Ha|]. apply largest_at; auto. intros i Hi. specialize (Least i Hi I). lra.
Qed.

(* Claim asrpt/eq-7: n iterations take n alpha and, once, the times of all stages but the slowest. *)
Theorem eq_7 c J (x : table) n : (1 <= stages J)%nat -> (1 <= n)%nat ->
  let seconds := fun s => largest (servers c) (beta c J x s) in
  exists slowest, (slowest < stages J)%nat /\ seconds slowest = alpha c J x /\
    completed seconds n (stages J - 1) =
    INR n * alpha c J x + sum (stages J) (fun s => if Nat.eqb s slowest then 0 else seconds s).
Proof.
  intros St N seconds. assert (Pos : forall s, 0 <= seconds s) by (intros; apply largest_nonneg).
  destruct (largest_attained (stages J) seconds St ltac:(auto)) as (a & Ha & La).
  exists a. split; [exact Ha|split; [symmetry; exact La|]]. destruct n as [|n]; [lia|].
  rewrite completed_at by exact Pos. replace (S (stages J - 1)) with (stages J) by lia.
  rewrite (sum_ext (stages J) (fun s => if Nat.eqb s a then 0 else seconds s)
    (fun s => seconds s - (if Nat.eqb s a then seconds a else 0))).
  - rewrite sum_minus, sum_at, S_INR by exact Ha. unfold alpha. fold seconds. rewrite La. ring.
  - intros s _. destruct (Nat.eqb_spec s a) as [->|]; ring.
Qed.

Example eq_7_met : can_be_met eq_7.
Proof. intros H. apply (H example_cluster (example_job 1) (counts (example_job 1) (fun s _ => s)) 3%nat); cbn; lia. Qed.

(* -- the longest and the shortest iteration -- *)

(* Seconds of stage s if its replicas are apart, or if all replicas of the job are on one server. *)
Definition apart_seconds (c : cluster) (J : job) (s : nat) : R :=
  compute J s + (2 * inputs J s + 2 * outputs J s) / share c
  + 2 * (INR (replicas J s) - 1) * parameters J s / (INR (replicas J s) * share c).
Definition inside_seconds (c : cluster) (J : job) (s : nat) : R :=
  compute J s + (2 * inputs J s + 2 * outputs J s) / intra c
  + 2 * (INR (replicas J s) - 1) * parameters J s / (INR (replicas J s) * intra c).

(* alpha^min, and the longest iteration of all placements. *)
Definition shortest_iteration (c : cluster) (J : job) (a : R) : Prop :=
  (exists x, placement c J x /\ alpha c J x = a) /\ forall x, placement c J x -> a <= alpha c J x.
Definition longest_iteration (c : cluster) (J : job) (a : R) : Prop :=
  (exists x, placement c J x /\ alpha c J x = a) /\ forall x, placement c J x -> alpha c J x <= a.

Lemma nsum_mono s t f : (s <= t)%nat -> (nsum s f <= nsum t f)%nat.
Proof. induction 1; cbn; lia. Qed.

Lemma div_nonneg a b : 0 <= a -> 0 < b -> 0 <= a / b.
Proof. intros. apply Rmult_le_pos; [assumption|]. apply Rlt_le, Rinv_0_lt_compat; assumption. Qed.
Lemma div_le a b b' : 0 <= a -> 0 < b -> b <= b' -> a / b' <= a / b.
Proof. intros. apply Rmult_le_compat_l; [assumption|]. apply Rinv_le_contravar; assumption. Qed.

Lemma gradient_nonneg J s : job_ok J -> (s < stages J)%nat ->
  0 <= 2 * (INR (replicas J s) - 1) * parameters J s / INR (replicas J s).
Proof.
  intros (_ & Each & _) Hs. destruct (Each s Hs) as (K & _ & _ & _ & H). pose proof (le_INR 1 _ K). cbn in *.
  apply div_nonneg; [|lra]. repeat apply Rmult_le_pos; lra.
Qed.

Lemma gradient_split a k b : 0 < k -> 0 < b -> a / (k * b) = a / k / b.
Proof. intros. field. lra. Qed.

Lemma apart_nonneg c J s : cluster_ok c -> job_ok J -> (s < stages J)%nat -> 0 <= apart_seconds c J s.
Proof.
  intros Hc HJ Hs. pose proof (share_positive c Hc). pose proof (gradient_nonneg J s HJ Hs).
  destruct HJ as (_ & Each & _). destruct (Each s Hs) as (K & P & I & O & H'). apply INR_positive in K.
  unfold apart_seconds. rewrite gradient_split by assumption.
  pose proof (div_nonneg (2 * inputs J s + 2 * outputs J s) (share c) ltac:(lra) ltac:(assumption)).
  pose proof (div_nonneg _ (share c) H0 ltac:(assumption)). lra.
Qed.

(* Links of a replica, y of k of them within the server. *)
Lemma link_seconds a k y b B : 0 < b <= B -> 0 <= a -> a = 0 \/ (1 <= k)%nat /\ (y <= k)%nat ->
  a / B <= a * ((INR k - INR y) / INR k) / b + a * (INR y / INR k) / B <= a / b.
Proof.
  intros Bb A [->|(K & Y)]; [unfold Rdiv; lra|]. apply INR_positive in K. apply le_INR in Y.
  set (f := INR y / INR k). replace ((INR k - INR y) / INR k) with (1 - f) by (unfold f; field; lra).
  assert (F : 0 <= f <= 1).
  { unfold f. split; [apply div_nonneg; [apply pos_INR|lra]|]. apply Rmult_le_reg_r with (INR k); [lra|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra. }
  assert (D : a / B <= a / b) by (apply div_le; lra). unfold Rdiv in *.
  replace (a * (1 - f) * / b) with ((1 - f) * (a * / b)) by ring. replace (a * f * / B) with (f * (a * / B)) by ring.
  set (p := a * / b) in *. set (q := a * / B) in *.
  assert (0 <= (1 - f) * (p - q) /\ 0 <= f * (p - q)) by (split; apply Rmult_le_pos; lra). lra.
Qed.

Lemma comm_bounds c J x s m : cluster_ok c -> job_ok J -> fast_inside c -> (s < stages J)%nat -> (1 <= x s m)%nat ->
  (forall q, (q < stages J)%nat -> (x q m <= replicas J q)%nat) ->
  (2 * inputs J s + 2 * outputs J s) / intra c <= comm c J x s m <= (2 * inputs J s + 2 * outputs J s) / share c.
Proof.
  intros Hc HJ Fast Hs X Le. pose proof (share_positive c Hc) as B. rewrite comm_simple by assumption.
  destruct HJ as (_ & Each & First & Last & _). destruct (Each s Hs) as (_ & _ & I & O & _).
  assert (Before : 2 * inputs J s = 0 \/ (1 <= replicas J (s - 1))%nat /\ (x (s - 1)%nat m <= replicas J (s - 1))%nat).
  { destruct s as [|s]; [left; rewrite First; ring|]. right. split; [apply Each|apply Le]; lia. }
  assert (After : 2 * outputs J s = 0 \/ (1 <= replicas J (s + 1))%nat /\ (x (s + 1)%nat m <= replicas J (s + 1))%nat).
  { destruct (Nat.eq_dec s (stages J - 1)) as [->|]; [left; rewrite Last; ring|].
    right. split; [apply Each|apply Le]; lia. }
  pose proof (link_seconds (2 * inputs J s) _ _ (share c) (intra c) ltac:(unfold fast_inside in Fast; lra) ltac:(lra)
    Before).
  pose proof (link_seconds (2 * outputs J s) _ _ (share c) (intra c) ltac:(unfold fast_inside in Fast; lra) ltac:(lra)
    After).
  unfold Rdiv in *. rewrite !Rmult_plus_distr_r. lra.
Qed.

Lemma placed_replicas c J x s m : placement c J x -> (s < stages J)%nat -> (m < servers c)%nat ->
  (x s m <= replicas J s)%nat.
Proof. intros (All & _) Hs Hm. rewrite <- (All s Hs). now apply nsum_term. Qed.

Lemma beta_le_apart c J x s m : cluster_ok c -> job_ok J -> fast_inside c -> (s < stages J)%nat ->
  (m < servers c)%nat ->
  placement c J x -> beta c J x s m <= apart_seconds c J s.
Proof.
  intros Hc HJ Fast Hs Hm P. pose proof (share_positive c Hc) as B. unfold beta.
  destruct (Nat.eqb_spec (x s m) 0) as [|X]; [now apply apart_nonneg|]. unfold apart_seconds.
  pose proof (comm_bounds c J x s m Hc HJ Fast Hs ltac:(lia) (fun q Hq => placed_replicas c J x q m P Hq Hm)).
  assert (A : all_reduce c J x s m <= 2 * (INR (replicas J s) - 1) * parameters J s / (INR (replicas J s) * share c));
    [|lra].
  pose proof (gradient_nonneg J s HJ Hs) as Gr. destruct HJ as (_ & Each & _), (Each s Hs) as (K & _).
  apply INR_positive in K. rewrite gradient_split by assumption. unfold all_reduce.
  destruct Hc as (Gc & I & In). apply INR_positive in Gc. unfold fast_inside in Fast.
  destruct (Nat.ltb_spec (x s m) (replicas J s)).
  - replace (INR (replicas J s) * (INR (x s m) / INR (per_server c)) * inter c)
      with (INR (replicas J s) * (INR (x s m) * share c)) by (unfold share; field; lra).
    pose proof (le_INR 1 (x s m) ltac:(lia)) as X1. cbn in X1.
    assert (share c <= INR (x s m) * share c).
    { rewrite <- (Rmult_1_l (share c)) at 1. apply Rmult_le_compat_r; lra. }
    rewrite gradient_split by lra. apply div_le; lra.
  - rewrite gradient_split by lra. apply div_le; lra.
Qed.

Lemma share_le c : cluster_ok c -> share c <= inter c.
Proof.
  intros (G & I & _). unfold share. replace (inter c) with (inter c / 1) at 2 by field. apply div_le; [lra|lra|].
  apply (le_INR 1 _ G).
Qed.

Lemma beta_ge_inside c J x s m : cluster_ok c -> job_ok J -> fast_links c -> (s < stages J)%nat ->
  (m < servers c)%nat ->
  placement c J x -> (1 <= x s m)%nat -> inside_seconds c J s <= beta c J x s m.
Proof.
  intros Hc HJ Fast Hs Hm P X. pose proof (share_positive c Hc) as B. pose proof (share_le c Hc).
  unfold fast_links in Fast.
  unfold beta. destruct (Nat.eqb_spec (x s m) 0); [lia|]. unfold inside_seconds.
  pose proof (comm_bounds c J x s m Hc HJ ltac:(unfold fast_inside; lra) Hs ltac:(lia)
    (fun q Hq => placed_replicas c J x q m P Hq Hm)).
  assert (A : 2 * (INR (replicas J s) - 1) * parameters J s / (INR (replicas J s) * intra c) <= all_reduce c J x s m);
    [|lra].
  pose proof (gradient_nonneg J s HJ Hs) as Gr. destruct HJ as (_ & Each & _), (Each s Hs) as (K & _).
  apply INR_positive in K. unfold all_reduce. destruct (Nat.ltb_spec (x s m) (replicas J s)) as [L|]; [|lra].
  destruct Hc as (Gc & I & In). assert (Xg : (x s m <= per_server c)%nat).
  { apply Nat.le_trans with (nsum (stages J) (fun q => x q m)); [|now apply P].
    apply (nsum_term (stages J) (fun q => x q m)); exact Hs. }
  apply INR_positive in Gc, X. apply le_INR in Xg.
  replace (INR (replicas J s) * (INR (x s m) / INR (per_server c)) * inter c)
    with (INR (replicas J s) * (INR (x s m) * share c)) by (unfold share; field; lra).
  assert (Part : INR (x s m) * share c <= inter c).
  { replace (inter c) with (INR (per_server c) * share c) by (unfold share; field; lra).
    apply Rmult_le_compat_r; lra. }
  assert (0 < INR (x s m) * share c) by (apply Rmult_lt_0_compat; lra).
  rewrite (gradient_split _ _ (intra c)), (gradient_split _ _ (INR (x s m) * share c)) by lra. apply div_le; lra.
Qed.

Lemma alpha_max_apart c J : cluster_ok c -> job_ok J -> alpha_max c J = largest (stages J) (apart_seconds c J).
Proof.
  intros Hc HJ. apply largest_ext. intros s Hs. pose proof (share_positive c Hc) as B.
  assert (Hc' : cluster_ok (one_each c J)) by exact Hc.
  pose proof (proj1 (proj2 HJ) s Hs) as (K & _).
  assert (At : forall m, apart J s m = 1%nat -> beta (one_each c J) J (apart J) s m = apart_seconds c J s).
  { intros m One. unfold beta. rewrite comm_simple by (auto; lia). rewrite One. cbn [Nat.eqb].
    destruct HJ as (_ & Each & First & Last & _). unfold apart_seconds.
    assert (Here : (nsum s (replicas J) <= m < nsum (S s) (replicas J))%nat).
    { unfold apart in One. destruct (Nat.leb_spec (nsum s (replicas J)) m), (Nat.ltb_spec m (nsum (S s) (replicas J)));
        cbn in One; lia. }
    assert (Other : forall q, q <> s -> apart J q m = O).
    { intros q Q. unfold apart. destruct (Nat.leb_spec (nsum q (replicas J)) m); [|reflexivity].
      destruct (Nat.ltb_spec m (nsum (S q) (replicas J))); [exfalso|reflexivity].
      destruct (Nat.lt_trichotomy q s) as [L|[L|L]]; [|lia|].
      - pose proof (nsum_mono (S q) s (replicas J) L). lia.
      - pose proof (nsum_mono (S s) q (replicas J) L). lia. }
    f_equal; [f_equal|].
    - rewrite (Other (s + 1)%nat) by lia. cbn [share inter per_server one_each intra].
      change (share (one_each c J)) with (share c).
      assert (E : 2 * inputs J s * ((INR (replicas J (s - 1)) - INR (apart J (s - 1)%nat m)) / INR (replicas J (s - 1)))
        = 2 * inputs J s /\ 2 * inputs J s * (INR (apart J (s - 1)%nat m) / INR (replicas J (s - 1))) = 0).
      { destruct s as [|s]; [rewrite First; lra|]. rewrite Other by lia. cbn [INR].
        destruct (Each (S s - 1)%nat ltac:(lia)) as (K' & _). apply INR_positive in K'. split; field; lra. }
      destruct E as (-> & ->).
      assert (E : 2 * outputs J s * ((INR (replicas J (s + 1)) - INR 0) / INR (replicas J (s + 1))) = 2 * outputs J s).
      { cbn [INR]. destruct (Nat.eq_dec s (stages J - 1)) as [->|]; [rewrite Last; ring|].
        destruct (Each (s + 1)%nat ltac:(lia)) as (K' & _). apply INR_positive in K'. field; lra. }
      rewrite E. cbn [INR]. unfold Rdiv. ring.
    - unfold all_reduce. rewrite One. change (share (one_each c J)) with (share c).
      cbn [inter per_server intra one_each].
      destruct Hc as (Gc & I & _). apply INR_positive in Gc.
      destruct (Nat.ltb_spec 1 (replicas J s)) as [L|L].
      + apply INR_positive in K. cbn [INR]. unfold share. field. lra.
      + replace (replicas J s) with 1%nat by lia. cbn [INR]. unfold Rdiv. ring. }
  assert (First : apart J s (nsum s (replicas J)) = 1%nat).
  { unfold apart. rewrite Nat.leb_refl. cbn [nsum andb].
    now rewrite (proj2 (Nat.ltb_lt (nsum s (replicas J)) (nsum s (replicas J) + replicas J s))) by lia. }
  rewrite <- (At _ First). apply largest_at.
  - unfold one_each, gpus. cbn. pose proof (nsum_mono (S s) (stages J) (replicas J) Hs). cbn in H. lia.
  - rewrite (At _ First). now apply apart_nonneg.
  - intros m _. rewrite (At _ First). destruct (Nat.eqb_spec (apart J s m) 1) as [One|N];
      [rewrite At by exact One; lra|].
    unfold beta. replace (apart J s m) with O; [now apply apart_nonneg|].
    unfold apart in N |- *.
    destruct (andb (Nat.leb (nsum s (replicas J)) m) (Nat.ltb m (nsum (S s) (replicas J)))); lia.
Qed.

(* Claim asrpt/alpha-max-fast-inside: no placement has a longer iteration than alpha^max if B_intra >= B_inter / g. *)
Theorem alpha_max_fast_inside c J x : cluster_ok c -> job_ok J -> fast_inside c -> placement c J x ->
  alpha c J x <= alpha_max c J.
Proof.
  intros Hc HJ Fast P. rewrite alpha_max_apart by assumption. apply largest_le; [apply largest_nonneg|].
  intros s Hs. apply Rle_trans with (apart_seconds c J s); [|now apply largest_ge].
  apply largest_le; [now apply apart_nonneg|]. intros m Hm. now apply beta_le_apart.
Qed.

Lemma example_placement : placement example_cluster (example_job 1) (counts (example_job 1) (fun s _ => s)).
Proof. split; [intros [|[|s]]|intros [|[|m]]]; cbn; lia. Qed.

Example alpha_max_fast_inside_met : can_be_met alpha_max_fast_inside.
Proof.
  intros H. apply (H example_cluster (example_job 1) (counts (example_job 1) (fun s _ => s)));
    auto using example_cluster_ok, example_job_ok, example_placement, Rle_0_1. unfold fast_inside, share; cbn. lra.
Qed.

(* Two stages of one replica that compute for p seconds; the first sends d bytes to the second. *)
Definition two_stages (p d : R) : job := Job 2 (fun _ => 1%nat) (fun _ => p)
  (fun s => match s with O => 0 | _ => d end) (fun s => match s with O => d | _ => 0 end) (fun _ => 0) 0 1 1.

(* Claim asrpt/alpha-max-needed: for all B_intra < B_inter / g with g >= 2, two stages side by side take longer. *)
Theorem alpha_max_needed c p d : cluster_ok c -> intra c < share c -> (2 <= per_server c)%nat -> (1 <= servers c)%nat ->
  0 <= p -> 0 < d -> let side_by_side := counts (two_stages p d) (fun _ _ => O) in
  job_ok (two_stages p d) /\ placement c (two_stages p d) side_by_side /\
  alpha_max c (two_stages p d) < alpha c (two_stages p d) side_by_side.
Proof.
  intros Hc Slow G M P D x. set (J := two_stages p d).
  assert (HJ : job_ok J).
  { unfold job_ok. cbn. split; [lia|split; [|split; [lra|split; [lra|split; [|lra]]]]].
    - intros s _. split; [lia|]. repeat split; try lra; destruct s; lra.
    - intros [|s] Hs; cbn; [lra|lia]. }
  split; [exact HJ|split].
  - split.
    + intros s _. cbn. rewrite (nsum_ext _ _ (fun m => if Nat.eqb m 0 then 1%nat else O)) by now intros [|m].
      now apply nsum_at.
    + intros [|m] _; cbn; lia.
  - rewrite alpha_max_apart by assumption. cbn [stages J two_stages largest].
    assert (Apart : forall s, (s < 2)%nat -> apart_seconds c J s = p + 2 * d / share c).
    { intros [|[|s]] Hs; [| |lia]; unfold apart_seconds; cbn; unfold Rdiv; ring. }
    rewrite !Apart by lia. rewrite Rmax_right; [|rewrite Rmax_right; [lra|]].
    2: { pose proof (share_positive c Hc). pose proof (div_nonneg (2 * d) (share c)). lra. }
    apply Rlt_le_trans with (p + 2 * d / intra c).
    + apply Rplus_lt_compat_l, Rmult_lt_compat_l; [lra|]. destruct Hc as (_ & _ & I).
      apply Rinv_lt_contravar; [apply Rmult_lt_0_compat; lra|lra].
    + apply Rle_trans with (largest (servers c) (beta c J x 0));
        [|apply (largest_ge 2 (fun s => largest (servers c) (beta c J x s)) 0); lia].
      apply Rle_trans with (beta c J x 0 0); [|apply largest_ge; lia]. right. unfold beta. cbn [Nat.eqb].
      change (x 0 0)%nat with 1%nat. cbn [Nat.eqb].
      rewrite comm_simple by (auto; unfold x; cbn; lia). unfold all_reduce, x, J. cbn. unfold Rdiv. field.
      pose proof (share_positive c Hc). destruct Hc as (_ & ? & ?). lra.
Qed.

Example alpha_max_needed_met : can_be_met alpha_max_needed.
Proof.
  intros H. apply (H (Cluster 1 2 4 1) 1 1); try (split; cbn; lra || lia); try (unfold share; cbn; lra || lia).
Qed.

Lemma has_server c J x s : job_ok J -> placement c J x -> (s < stages J)%nat ->
  exists m, (m < servers c)%nat /\ (1 <= x s m)%nat.
Proof.
  intros (_ & Each & _) (All & _) Hs. destruct (Each s Hs) as (K & _). apply nsum_positive. rewrite All by exact Hs.
  lia.
Qed.

Lemma inside_le_alpha c J x : cluster_ok c -> job_ok J -> fast_links c -> placement c J x ->
  largest (stages J) (inside_seconds c J) <= alpha c J x.
Proof.
  intros Hc HJ Fast P. apply largest_le; [apply largest_nonneg|]. intros s Hs.
  destruct (has_server c J x s HJ P Hs) as (m & Hm & X).
  apply Rle_trans with (beta c J x s m); [now apply beta_ge_inside|].
  apply Rle_trans with (largest (servers c) (beta c J x s)); [now apply largest_ge|].
  now apply (largest_ge _ (fun s => largest (servers c) (beta c J x s))).
Qed.

Lemma inside_nonneg c J s : cluster_ok c -> job_ok J -> (s < stages J)%nat -> 0 <= inside_seconds c J s.
Proof.
  intros (_ & _ & B) HJ Hs. pose proof (gradient_nonneg J s HJ Hs) as Gr.
  destruct HJ as (_ & Each & _). destruct (Each s Hs) as (K & P & I & O & _). apply INR_positive in K.
  unfold inside_seconds. rewrite gradient_split by assumption.
  pose proof (div_nonneg (2 * inputs J s + 2 * outputs J s) (intra c) ltac:(lra) B).
  pose proof (div_nonneg _ (intra c) Gr B). lra.
Qed.

(* A job that takes no time on one placement takes none on any other, on any servers. *)
Lemma no_work c c' J x y : cluster_ok c -> job_ok J -> placement c J x -> alpha c J x = 0 -> alpha c' J y = 0.
Proof.
  intros Hc HJ P A.
  assert (Zero : forall s, (s < stages J)%nat -> compute J s = 0 /\ inputs J s = 0 /\ outputs J s = 0 /\
    2 * (INR (replicas J s) - 1) * parameters J s = 0).
  { intros s Hs. set (fast := Cluster (servers c) (per_server c) (inter c) (Rmax (inter c) (intra c))).
    pose proof (Rmax_l (inter c) (intra c)) as Bl. pose proof (Rmax_r (inter c) (intra c)) as Br.
    assert (Hf : cluster_ok fast) by (destruct Hc as (G & I & B); split; [exact G|cbn; lra]).
    destruct (has_server c J x s HJ P Hs) as (m & Hm & X).
    assert (Slow : beta c J x s m <= 0).
    { rewrite <- A. apply Rle_trans with (largest (servers c) (beta c J x s)); [now apply largest_ge|].
      now apply (largest_ge _ (fun s => largest (servers c) (beta c J x s))). }
    pose proof (beta_ge_inside fast J x s m Hf HJ Bl Hs Hm P X) as Inside.
    pose proof (gradient_nonneg J s HJ Hs) as Gr. destruct HJ as (_ & Each & First & Last & _).
    destruct (Each s Hs) as (K & C & I & O & H). apply INR_positive in K.
    assert (Near : 0 <= 2 * inputs J s * (INR (x (s - 1)%nat m) / INR (replicas J (s - 1)))
      /\ 0 <= 2 * outputs J s * (INR (x (s + 1)%nat m) / INR (replicas J (s + 1)))).
    { split.
      - destruct s as [|s]; [rewrite First; lra|]. apply Rmult_le_pos; [lra|].
        apply div_nonneg; [apply pos_INR|]. apply INR_positive, Each. lia.
      - destruct (Nat.eq_dec s (stages J - 1)) as [->|]; [rewrite Last; lra|]. apply Rmult_le_pos; [lra|].
        apply div_nonneg; [apply pos_INR|]. apply INR_positive, Each. lia. }
    assert (Faster : beta fast J x s m <= beta c J x s m).
    { unfold beta. destruct (Nat.eqb_spec (x s m) 0); [lia|]. rewrite !comm_simple by assumption.
      change (share fast) with (share c). change (intra fast) with (Rmax (inter c) (intra c)).
      destruct Hc as (_ & _ & B).
      apply Rplus_le_compat; [apply Rplus_le_compat_l, Rplus_le_compat_l, div_le; lra|].
      unfold all_reduce. cbn [per_server inter intra fast]. destruct Nat.ltb; [lra|].
      rewrite !gradient_split by lra. apply div_le; lra. }
    unfold inside_seconds in Inside. cbn [intra fast] in Inside. destruct Hc as (_ & B & _).
    rewrite gradient_split in Inside by lra. set (r := Rmax (inter c) (intra c)) in *.
    set (links := 2 * inputs J s + 2 * outputs J s) in *. set (k := INR (replicas J s)) in *.
    pose proof (div_nonneg links r ltac:(unfold links; lra) ltac:(lra)) as L0.
    pose proof (div_nonneg _ r Gr ltac:(lra)) as G0.
    assert (links = 0).
    { replace links with (links / r * r) by (field; lra). replace (links / r) with 0 by lra. ring. }
    assert (2 * (k - 1) * parameters J s = 0).
    { replace (2 * (k - 1) * parameters J s) with (2 * (k - 1) * parameters J s / k / r * (k * r)) by (field; lra).
      replace (2 * (k - 1) * parameters J s / k / r) with 0 by lra. ring. }
    unfold links in *. lra. }
  apply Rle_antisym; [|apply largest_nonneg]. apply largest_le; [lra|]. intros s Hs. apply largest_le; [lra|].
  intros m _. destruct (Zero s Hs) as (C & I & O & H). unfold beta, comm, all_reduce. rewrite C, I, O, H.
  right. destruct (Nat.eqb (y s m) 0), (Nat.ltb (y s m) (replicas J s)); unfold Rdiv; ring.
Qed.

(* All replicas on server a. *)
Lemma alpha_together c J x a : cluster_ok c -> job_ok J -> (a < servers c)%nat ->
  (forall s m, (s < stages J)%nat -> x s m = if Nat.eqb m a then replicas J s else O) ->
  alpha c J x = largest (stages J) (inside_seconds c J).
Proof.
  intros Hc HJ Ha X. apply largest_ext. intros s Hs. pose proof HJ as (_ & Each & First & Last & _).
  destruct (Each s Hs) as (K & _).
  assert (At : beta c J x s a = inside_seconds c J s).
  { assert (Xa : x s a = replicas J s) by (rewrite X, Nat.eqb_refl; auto).
    unfold beta. rewrite comm_simple by (auto; lia). rewrite Xa. destruct (Nat.eqb_spec (replicas J s) 0); [lia|].
    unfold inside_seconds. f_equal; [f_equal|].
    - assert (E : 2 * inputs J s * ((INR (replicas J (s - 1)) - INR (x (s - 1)%nat a)) / INR (replicas J (s - 1))) = 0
        /\ 2 * inputs J s * (INR (x (s - 1)%nat a) / INR (replicas J (s - 1))) = 2 * inputs J s).
      { destruct s as [|s]; [rewrite First; lra|]. rewrite X, Nat.eqb_refl by lia.
        destruct (Each (S s - 1)%nat ltac:(lia)) as (K' & _). apply INR_positive in K'. split; field; lra. }
      assert (F : 2 * outputs J s * ((INR (replicas J (s + 1)) - INR (x (s + 1)%nat a)) / INR (replicas J (s + 1))) = 0
        /\ 2 * outputs J s * (INR (x (s + 1)%nat a) / INR (replicas J (s + 1))) = 2 * outputs J s).
      { destruct (Nat.eq_dec s (stages J - 1)) as [->|]; [rewrite Last; lra|].
        rewrite X, Nat.eqb_refl by lia.
        destruct (Each (s + 1)%nat ltac:(lia)) as (K' & _). apply INR_positive in K'. split; field; lra. }
      destruct E as (-> & ->), F as (-> & ->). unfold Rdiv. ring.
    - unfold all_reduce. rewrite Xa, Nat.ltb_irrefl. reflexivity. }
  rewrite <- At. apply largest_at; [exact Ha|rewrite At; now apply inside_nonneg|].
  intros m _. destruct (Nat.eq_dec m a) as [->|N]; [lra|]. rewrite At.
  unfold beta. rewrite X by exact Hs. apply Nat.eqb_neq in N. rewrite N. cbn [Nat.eqb]. now apply inside_nonneg.
Qed.

(* -- Heavy-Edge -- *)

(* A mapper places a job on given numbers of GPUs of the servers; this is what all mappers have in common. *)
Definition mapper := job -> (nat -> nat) -> locations.
Definition maps (c : cluster) (J : job) (use : nat -> nat) (w : locations) : Prop :=
  (forall s r, (s < stages J)%nat -> (r < replicas J s)%nat -> (w s r < servers c)%nat) /\
  forall m, (m < servers c)%nat -> nsum (stages J) (fun s => counts J w s m) = use m.
Definition mapper_ok (c : cluster) (mapping : mapper) : Prop :=
  forall J use, nsum (servers c) use = gpus J -> maps c J use (mapping J use).

Section HeavyEdge.
Variable J : job.

(* Stage and replica. *)
Definition vertex := (nat * nat)%type.
Fixpoint vertices (n : nat) : list vertex :=
  match n with O => [] | S n => vertices n ++ map (pair n) (seq 0 (replicas J n)) end.

(* Weights of the edges: between replicas of adjacent stages, and along the ring of a stage's replicas. *)
Definition edge_bytes (u v : vertex) : R :=
  let (s, r) := u in let (s', r') := v in
  let k := replicas J s in
  if Nat.eqb s' (S s) then pair_bytes J s
  else if Nat.eqb s (S s') then pair_bytes J s'
  else if andb (Nat.eqb s s') (andb (negb (Nat.eqb r r'))
    (orb (Nat.eqb r' ((r + 1) mod k)) (Nat.eqb r ((r' + 1) mod k))))
  then 2 * ((INR k - 1) / INR k) * parameters J s else 0.

Definition heaviest (v : vertex) (l : list vertex) : R := fold_right Rmax 0 (map (edge_bytes v) l).
Definition total_weight (v : vertex) : R := fold_right Rplus 0 (map (edge_bytes v) (vertices (stages J))).

(* A server with one GPU takes the vertex with the least total weight. Any other starts at the heaviest edge between
   two remaining vertices, and then adds the vertex with the heaviest edge to those that it has. *)
Definition preference (size : nat) (here rest : list vertex) (v : vertex) : R :=
  if Nat.eqb size 1 then - total_weight v else match here with [] => heaviest v rest | _ => heaviest v here end.

(* The vertex with the largest score, and all others. *)
Fixpoint extract (score : vertex -> R) (v : vertex) (l : list vertex) : vertex * list vertex :=
  match l with
  | [] => (v, [])
  | u :: l => if Rlt_dec (score v) (score u)
      then let (b, rest) := extract score u l in (b, v :: rest)
      else let (b, rest) := extract score v l in (b, u :: rest)
  end.

(* A server of this size takes n more vertices. *)
Fixpoint fill (size n : nat) (here rest : list vertex) : list vertex * list vertex :=
  match n, rest with
  | S n, v :: l => let (b, rest') := extract (preference size here rest) v l in fill size n (b :: here) rest'
  | _, _ => (here, rest)
  end.

(* Servers are filled one after another. *)
Fixpoint assign (use : nat -> nat) (order : list nat) (rest : list vertex) : list (vertex * nat) :=
  match order with
  | [] => []
  | m :: order => let (here, rest') := fill (use m) (use m) [] rest in
      map (fun v => (v, m)) here ++ assign use order rest'
  end.

Fixpoint server_of (l : list (vertex * nat)) (v : vertex) : nat :=
  match l with
  | [] => O
  | (u, m) :: l => if andb (Nat.eqb (fst u) (fst v)) (Nat.eqb (snd u) (snd v)) then m else server_of l v
  end.

Lemma extract_permutation score v l : Permutation (v :: l) (fst (extract score v l) :: snd (extract score v l)).
Proof.
  revert v. induction l as [|u l IH]; intros v; cbn; [reflexivity|].
  destruct Rlt_dec.
  - specialize (IH u). destruct (extract score u l) as (b, rest). cbn in *.
    apply perm_trans with (v :: b :: rest); [now apply perm_skip|apply perm_swap].
  - specialize (IH v). destruct (extract score v l) as (b, rest). cbn in *.
    apply perm_trans with (u :: v :: l); [apply perm_swap|].
    apply perm_trans with (u :: b :: rest); [now apply perm_skip|apply perm_swap].
Qed.

Lemma fill_spec size n here rest : let (here', rest') := fill size n here rest in
  Permutation (here ++ rest) (here' ++ rest') /\ length here' = (length here + Nat.min n (length rest))%nat.
Proof.
  revert here rest. induction n as [|n IH]; intros here rest; cbn [fill]; [rewrite Nat.min_0_l; split; auto; lia|].
  destruct rest as [|v l]; [cbn; split; auto; lia|].
  pose proof (extract_permutation (preference size here (v :: l)) v l) as P.
  destruct (extract (preference size here (v :: l)) v l) as (b, rest). cbn [fst snd] in P.
  specialize (IH (b :: here) rest).
  destruct (fill size n (b :: here) rest) as (here', rest'). destruct IH as (Q & Len). split.
  - rewrite <- Q, P. cbn. symmetry. apply Permutation_middle.
  - rewrite Len. apply Permutation_length in P. cbn [length] in *. lia.
Qed.

Definition tally (m : nat) (l : list nat) : nat := list_sum (map (fun q => if Nat.eqb q m then 1%nat else O) l).

Lemma list_sum_permutation l l' : Permutation l l' -> list_sum l = list_sum l'.
Proof. unfold list_sum. induction 1; cbn; lia. Qed.

Lemma tally_constant m q {A} (l : list A) : tally m (map (fun _ => q) l) = if Nat.eqb q m then length l else O.
Proof.
  unfold tally, list_sum. induction l as [|a l IH]; cbn in *; [now destruct Nat.eqb|].
  rewrite IH. now destruct (Nat.eqb q m).
Qed.

Lemma assign_spec use order rest : NoDup order -> length rest = list_sum (map use order) ->
  Permutation rest (map fst (assign use order rest)) /\
  (forall m, tally m (map snd (assign use order rest)) = if in_dec Nat.eq_dec m order then use m else O) /\
  (forall p, In p (assign use order rest) -> In (snd p) order).
Proof.
  revert rest. induction order as [|q order IH]; intros rest ND Len; cbn [assign].
  - cbn in Len. destruct rest; [|discriminate]. split; [auto|split; [reflexivity|intros p []]].
  - inversion ND as [|? ? Nq ND']; subst. pose proof (fill_spec (use q) (use q) [] rest) as F.
    destruct (fill (use q) (use q) [] rest) as (here, rest'). destruct F as (P & Lh). cbn [app length Nat.add] in P, Lh.
    change (length rest = use q + list_sum (map use order))%nat in Len.
    rewrite Nat.min_l in Lh by lia. pose proof (Permutation_length P) as Lr. rewrite app_length in Lr.
    destruct (IH rest' ND' ltac:(lia)) as (Q & T & Servers). repeat split.
    + rewrite map_app, map_map. cbn. rewrite map_id, <- Q. exact P.
    + intros m. rewrite map_app, map_map. cbn [snd].
      assert (App : forall l l', tally m (l ++ l') = (tally m l + tally m l')%nat)
        by (intros; unfold tally; now rewrite map_app, list_sum_app).
      rewrite App, tally_constant, T.
      destruct (in_dec Nat.eq_dec m order) as [I|I], (in_dec Nat.eq_dec m (q :: order)) as [I'|I'],
        (Nat.eqb_spec q m) as [->|N]; cbn in I'; try lia; tauto.
    + intros p Ip. apply in_app_or in Ip. destruct Ip as [Ip|Ip].
      * apply in_map_iff in Ip. destruct Ip as (v & <- & _). now left.
      * right. now apply Servers.
Qed.
End HeavyEdge.

(* -- shortest and longest iterations exist -- *)

Section Extremes.
Variables (c : cluster) (J : job).
Hypothesis Ok : job_ok J.

Definition same_table (x y : table) : Prop := forall s m, (s < stages J)%nat -> (m < servers c)%nat -> x s m = y s m.

Lemma placement_same x y : same_table x y -> placement c J x -> placement c J y.
Proof.
  intros E (All & Le). split.
  - intros s Hs. rewrite <- (All s Hs). apply nsum_ext. intros m Hm. symmetry. now apply E.
  - intros m Hm. rewrite <- (nsum_ext _ (fun s => x s m)) by (intros; now apply E). now apply Le.
Qed.

Lemma alpha_same x y : same_table x y -> alpha c J x = alpha c J y.
Proof.
  intros E. apply largest_ext. intros s Hs. apply largest_ext. intros m Hm.
  destruct Ok as (St & _ & _ & Last & _).
  assert (Comm : comm c J x s m = comm c J y s m).
  { unfold comm. rewrite (E s m Hs Hm), (E (s - 1)%nat m) by (auto; lia).
    destruct (Nat.eq_dec s (stages J - 1)) as [->|]; [rewrite Last, Rmult_0_r, !Rmult_0_l; reflexivity|].
    now rewrite (E (s + 1)%nat m) by (auto; lia). }
  unfold beta. rewrite Comm. unfold all_reduce. now rewrite (E s m Hs Hm).
Qed.

Lemma extreme_placement sign : (exists x, placement c J x) ->
  exists x, placement c J x /\ forall y, placement c J y -> sign * alpha c J x <= sign * alpha c J y.
Proof.
  set (M := servers c). set (decode := fun (h : nat -> nat) s m => h (s * M + m)%nat).
  set (l := functions O (fun _ => seq 0 (S (gpus J))) (stages J * M)).
  assert (Coded : forall x, placement c J x -> exists h, In h l /\ same_table (decode h) x).
  { intros x P.
    destruct (functions_complete O (fun _ => seq 0 (S (gpus J))) (stages J * M) (fun i => x (i / M)%nat (i mod M)%nat))
      as (h & Ih & Same).
    - intros i Hi. apply in_seq. cut (x (i / M) (i mod M) <= gpus J)%nat; [lia|].
      assert (M0 : (M <> 0)%nat) by lia. assert (D : (i / M < stages J)%nat) by (apply Nat.div_lt_upper_bound; lia).
      apply Nat.le_trans with (replicas J (i / M)).
      + apply (placed_replicas c); auto. now apply Nat.mod_upper_bound.
      + now apply (nsum_term (stages J) (replicas J)).
    - exists h. split; [exact Ih|]. intros s m Hs Hm. fold M in Hm. unfold decode. rewrite Same.
      + rewrite Nat.div_add_l, Nat.div_small, Nat.add_0_r by lia.
        now rewrite (Nat.add_comm (s * M)), Nat.mod_add, Nat.mod_small by lia.
      + apply Nat.lt_le_trans with (s * M + M)%nat; [lia|]. replace (s * M + M)%nat with (S s * M)%nat by (cbn; lia).
        now apply Nat.mul_le_mono_r. }
  intros (x0 & P0). destruct (least_of_list l (fun h => placement c J (decode h))
    (fun h => sign * alpha c J (decode h)))
    as (h & _ & Ph & Least).
  - destruct (Coded x0 P0) as (h & Ih & Same). exists h. split; [exact Ih|]. apply placement_same with x0; [|exact P0].
    intros s m Hs Hm. symmetry. now apply Same.
  - exists (decode h). split; [exact Ph|]. intros y Py. destruct (Coded y Py) as (k & Ik & Same).
    rewrite <- (alpha_same _ _ Same). apply Least; [exact Ik|]. apply placement_same with y; [|exact Py].
    intros s m Hs Hm. symmetry. now apply Same.
Qed.

Lemma shortest_exists : (exists x, placement c J x) -> exists a, shortest_iteration c J a.
Proof.
  intros E. destruct (extreme_placement 1 E) as (x & P & Least). exists (alpha c J x). split; [now exists x|].
  intros y Py. specialize (Least y Py). lra.
Qed.
Lemma longest_exists : (exists x, placement c J x) -> exists a, longest_iteration c J a.
Proof.
  intros E. destruct (extreme_placement (-1) E) as (x & P & Least). exists (alpha c J x). split; [now exists x|].
  intros y Py. specialize (Least y Py). lra.
Qed.
End Extremes.

(* Servers in an order; before m q: server m may come before q. *)
Fixpoint insert (before : nat -> nat -> bool) (m : nat) (l : list nat) : list nat :=
  match l with [] => [m] | q :: l' => if before m q then m :: l else q :: insert before m l' end.
Definition sorted (before : nat -> nat -> bool) (l : list nat) : list nat := fold_right (insert before) [] l.

Lemma sorted_permutation before l : Permutation l (sorted before l).
Proof.
  assert (I : forall m l, Permutation (m :: l) (insert before m l)).
  { clear. intros m. induction l as [|q l IH]; cbn; [reflexivity|]. destruct (before m q); [reflexivity|].
    apply perm_trans with (q :: m :: l); [apply perm_swap|now apply perm_skip]. }
  induction l as [|m l IH]; cbn; [reflexivity|]. apply perm_trans with (m :: sorted before l);
    [now apply perm_skip|apply I].
Qed.

Lemma sorted_servers before n : let l := sorted before (seq 0 n) in
  NoDup l /\ (forall m, In m l <-> (m < n)%nat) /\ forall f, list_sum (map f l) = nsum n f.
Proof.
  intros l. assert (P : Permutation (seq 0 n) l) by apply sorted_permutation. split; [|split].
  - apply (Permutation_NoDup P). apply seq_NoDup.
  - intros m. split; intros H.
    + apply (Permutation_in _ (Permutation_sym P)), in_seq in H. lia.
    + apply (Permutation_in _ P), in_seq. lia.
  - intros f. rewrite <- (list_sum_permutation _ _ (Permutation_map f P)). clear.
    induction n as [|n IH]; [reflexivity|].
    rewrite seq_S, map_app, list_sum_app, IH. cbn. lia.
Qed.

Definition heavy_edge (c : cluster) : mapper := fun J use s r =>
  server_of (assign J use (sorted (fun m q => Nat.leb (use q) (use m)) (seq 0 (servers c))) (vertices J (stages J)))
    (s, r).

Lemma NoDup_joined {A} (l l' : list A) : NoDup l -> NoDup l' -> (forall a, In a l -> ~ In a l') -> NoDup (l ++ l').
Proof.
  induction 1 as [|a l Na _ IH]; intros L' D; cbn; [exact L'|]. constructor.
  - intros I. apply in_app_or in I. destruct I; [tauto|]. now apply (D a); [left|].
  - apply IH; auto. intros b I. apply D. now right.
Qed.

Lemma vertices_spec J n : NoDup (vertices J n) /\
  (forall s r, In (s, r) (vertices J n) <-> (s < n)%nat /\ (r < replicas J s)%nat) /\
  forall f, list_sum (map f (vertices J n)) = nsum n (fun s => nsum (replicas J s) (fun r => f (s, r))).
Proof.
  induction n as [|n (ND & Inside & Sum)]; cbn [vertices].
  - repeat split; [constructor|contradiction|contradiction|lia].
  - split; [|split].
    + apply NoDup_joined; [exact ND| |].
      * apply FinFun.Injective_map_NoDup; [intros a b E; congruence|apply seq_NoDup].
      * intros (s, r) I I'. apply Inside in I. apply in_map_iff in I'. destruct I' as (q & E & _). inversion E. lia.
    + intros s r. rewrite in_app_iff, Inside, in_map_iff. split.
      * intros [H|(q & E & Q)]; [lia|]. inversion E; subst. apply in_seq in Q. lia.
      * intros (S & R). destruct (Nat.eq_dec s n) as [->|]; [right|left; lia]. exists r. split; [reflexivity|].
        apply in_seq. lia.
    + intros f. rewrite map_app, list_sum_app, Sum, map_map. cbn [nsum]. f_equal. clear.
      generalize (replicas J n) as k. induction k as [|k IH]; [reflexivity|].
      rewrite seq_S, map_app, list_sum_app, IH. cbn. lia.
Qed.

Lemma server_of_in l v m : NoDup (map fst l) -> In (v, m) l -> server_of l v = m.
Proof.
  induction l as [|((s, r), q) l IH]; cbn; intros ND I; [contradiction|]. inversion ND as [|? ? N ND']; subst.
  destruct I as [E|I].
  - inversion E; subst. cbn. now rewrite !Nat.eqb_refl.
  - destruct v as (s', r'). cbn. destruct (Nat.eqb_spec s s'), (Nat.eqb_spec r r'); cbn; try now apply IH.
    subst. exfalso. apply N. apply in_map_iff. now exists (s', r', m).
Qed.

(* Heavy-Edge is a mapper. *)
Lemma heavy_edge_maps c : mapper_ok c (heavy_edge c).
Proof.
  intros J use Sum. unfold heavy_edge. set (order := sorted _ _).
  destruct (sorted_servers (fun m q => Nat.leb (use q) (use m)) (servers c)) as (ND & Servers & Total).
  fold order in ND, Servers, Total.
  destruct (vertices_spec J (stages J)) as (NV & InV & SumV).
  assert (Len : length (vertices J (stages J)) = list_sum (map use order)).
  { rewrite Total, Sum. unfold gpus. pose proof (SumV (fun _ => 1%nat)) as L.
    rewrite (nsum_ext _ _ (replicas J)) in L.
    - rewrite <- L. clear. generalize (vertices J (stages J)). unfold list_sum. induction l; cbn; lia.
    - intros s _. apply nsum_ones. }
  destruct (assign_spec J use order _ ND Len) as (P & T & S). set (l := assign J use order _) in *.
  assert (NF : NoDup (map fst l)) by exact (Permutation_NoDup P NV). split.
  - intros s r Hs Hr. assert (I : In (s, r) (map fst l)) by (apply (Permutation_in _ P), InV; auto).
    apply in_map_iff in I. destruct I as ((v, m) & E & I). cbn in E. subst v.
    rewrite (server_of_in l (s, r) m NF I). apply Servers. exact (S _ I).
  - intros m Hm. specialize (T m). destruct in_dec as [_|N]; [|exfalso; apply N, Servers, Hm]. rewrite <- T.
    unfold counts. rewrite <- (SumV (fun v => if Nat.eqb (server_of l v) m then 1%nat else O)).
    rewrite (list_sum_permutation _ _ (Permutation_map _ P)). unfold tally. rewrite !map_map. f_equal.
    apply map_ext_in. intros (v, q) I. cbn. now rewrite (server_of_in l v q NF I).
Qed.

(* -- the selection of GPUs -- *)

(* A selector chooses the GPUs for a job from the free ones: of the servers with the most free GPUs (true), or with the
   least (false). A server gives fewer than all only if those that come after it give none. *)
Definition selector := bool -> job -> (nat -> nat) -> nat -> nat.
Definition selector_ok (c : cluster) (select : selector) : Prop :=
  forall most J free, (gpus J <= nsum (servers c) free)%nat ->
    nsum (servers c) (select most J free) = gpus J /\
    (forall m, (m < servers c)%nat -> (select most J free m <= free m)%nat) /\
    forall m q, (m < servers c)%nat -> (q < servers c)%nat -> (0 < select most J free q)%nat ->
      (if most then (free q < free m)%nat else (free m < free q)%nat) -> select most J free m = free m.

Fixpoint take (free : nat -> nat) (need : nat) (order : list nat) (m : nat) : nat :=
  match order with
  | [] => O
  | q :: order =>
      ((if Nat.eqb q m then Nat.min need (free q) else O) + take free (need - Nat.min need (free q)) order m)%nat
  end.
Definition in_order (c : cluster) : selector := fun most J free => take free (gpus J)
  (sorted (fun m q => if most then Nat.leb (free q) (free m) else Nat.leb (free m) (free q)) (seq 0 (servers c))).

Lemma take_outside free need order m : ~ In m order -> take free need order m = O.
Proof.
  revert need. induction order as [|q order IH]; intros need N; cbn; [reflexivity|].
  destruct (Nat.eqb_spec q m) as [->|]; [exfalso; apply N; now left|]. rewrite IH; [reflexivity|]. intros I. apply N.
  now right.
Qed.

Lemma take_le free need order m : NoDup order -> (take free need order m <= free m)%nat.
Proof.
  intros ND. revert need. induction ND as [|q order N ND IH]; intros need; cbn; [lia|].
  destruct (Nat.eqb_spec q m) as [->|]; [rewrite take_outside by exact N; lia|apply IH].
Qed.

Lemma take_sum free need order n : (forall m, In m order -> (m < n)%nat) ->
  nsum n (take free need order) = Nat.min need (list_sum (map free order)).
Proof.
  revert need. induction order as [|q order IH]; intros need H; cbn [take]; [cbn; rewrite nsum_zero; auto; lia|].
  change (list_sum (map free (q :: order))) with (free q + list_sum (map free order))%nat.
  rewrite (nsum_plus n (fun m => if Nat.eqb q m then Nat.min need (free q) else O)), IH by (intros; apply H; now right).
  rewrite (nsum_ext n _ (fun m => if Nat.eqb m q then Nat.min need (free q) else O))
    by (intros; now rewrite Nat.eqb_sym).
  rewrite nsum_at by (apply H; now left). lia.
Qed.

(* before is total and transitive; then what comes strictly before a server that gives GPUs gives all of its own. *)
Lemma take_order before free need order m q : NoDup order -> (forall a b, before a b = true \/ before b a = true) ->
  (forall a b d, before a b = true -> before b d = true -> before a d = true) ->
  In m (sorted before order) -> In q (sorted before order) -> before q m = false ->
  (0 < take free need (sorted before order) q)%nat -> take free need (sorted before order) m = free m.
Proof.
  intros ND Total Trans.
  assert (Sorted : forall l, ForallOrdPairs (fun a b => before a b = true) (sorted before l)).
  { assert (All : forall (Q : nat -> Prop) a l, Q a -> Forall Q l -> Forall Q (insert before a l)).
    { clear. intros Q a l Qa. induction 1 as [|b l Qb F IH]; cbn; [auto|]. destruct (before a b); auto. }
    assert (Ins : forall a l, ForallOrdPairs (fun a b => before a b = true) l ->
      ForallOrdPairs (fun a b => before a b = true) (insert before a l)).
    2: { induction l as [|a l IH]; cbn; [constructor|]. now apply Ins. }
    intros a. induction 1 as [|b l Fb Pl IHl]; cbn; [repeat constructor|].
    destruct (before a b) eqn:E.
    - constructor; [|now constructor]. constructor; [exact E|]. eapply Forall_impl; [|exact Fb].
      intros d B. now apply Trans with b.
    - constructor; [|exact IHl]. apply All; [|exact Fb]. destruct (Total a b); congruence. }
  specialize (Sorted order). assert (NS : NoDup (sorted before order))
    by apply (Permutation_NoDup (sorted_permutation before order) ND).
  revert need. induction Sorted as [|a l Fa Pl IH]; intros need Im Iq Strict Pos; [destruct Im|].
  inversion NS as [|? ? Na NS']; subst. cbn in Pos |- *. rewrite Forall_forall in Fa.
  destruct (Nat.eqb_spec a q) as [->|Naq].
  - exfalso. destruct Im as [->|Im]; [destruct (Total m m); congruence|]. specialize (Fa m Im). congruence.
  - destruct Iq as [|Iq]; [contradiction|]. cbn in Pos.
    assert (Need : (Nat.min need (free a) < need)%nat).
    { apply Nat.nle_gt. intros L. replace (need - Nat.min need (free a))%nat with O in Pos by lia.
      clear - Pos. induction l as [|b l IH]; cbn in Pos; [lia|]. apply IH. destruct (Nat.eqb b q); lia. }
    destruct (Nat.eqb_spec a m) as [->|]; [rewrite take_outside by exact Na; lia|].
    destruct Im as [|Im]; [contradiction|]. now apply IH.
Qed.

Lemma in_order_selects c : selector_ok c (in_order c).
Proof.
  intros most J free Enough. unfold in_order. set (before := fun m q => if most then _ else _).
  destruct (sorted_servers before (servers c)) as (ND & Servers & Total). split; [|split].
  - rewrite take_sum by (intros; now apply Servers). rewrite Total. lia.
  - intros. now apply take_le.
  - intros m q Hm Hq Pos Strict. apply take_order with q; auto; try now apply Servers.
    + apply seq_NoDup.
    + intros a b. unfold before. destruct most; rewrite !Nat.leb_le; lia.
    + intros a b d. unfold before. destruct most; rewrite !Nat.leb_le; lia.
    + unfold before. destruct most; apply Nat.leb_gt; exact Strict.
Qed.

(* -- alpha~^min -- *)

(* Servers that contribute all g GPUs, but the last one. *)
Definition filled (c : cluster) (J : job) (m : nat) : nat := Nat.min (per_server c) (gpus J - m * per_server c).
(* alpha~^min: the iteration of the mapper, Heavy-Edge, on these servers. *)
Definition alpha_tilde (c : cluster) (mapping : mapper) (J : job) : R := alpha c J (counts J (mapping J (filled c J))).

Lemma filled_sum c J : (gpus J <= all_gpus c)%nat -> nsum (servers c) (filled c J) = gpus J.
Proof.
  unfold all_gpus, filled. intros Fits.
  assert (H : forall n, nsum n (fun m => Nat.min (per_server c) (gpus J - m * per_server c)) = Nat.min
    (n * per_server c) (gpus J)).
  { induction n as [|n IH]; cbn [nsum]; [lia|]. rewrite IH. cbn [Nat.mul]. lia. }
  rewrite H. lia.
Qed.

Lemma counts_sum c J w s : (forall r, (r < replicas J s)%nat -> (w s r < servers c)%nat) ->
  nsum (servers c) (counts J w s) = replicas J s.
Proof.
  intros H. unfold counts. rewrite nsum_swap. rewrite (nsum_ext _ _ (fun _ => 1%nat)).
  - apply nsum_ones.
  - intros r Hr. rewrite (nsum_ext _ _ (fun m => if Nat.eqb m (w s r) then 1%nat else O)).
    + apply nsum_at. now apply H.
    + intros m _. now rewrite Nat.eqb_sym.
Qed.

Lemma maps_placement c J use w : maps c J use w -> (forall m, (m < servers c)%nat -> (use m <= per_server c)%nat) ->
  placement c J (counts J w).
Proof.
  intros (Inside & Use) Le. split; [intros s Hs; apply counts_sum; intros; now apply Inside|].
  intros m Hm. rewrite Use by exact Hm. now apply Le.
Qed.

Lemma tilde_placement c mapping J : mapper_ok c mapping -> (gpus J <= all_gpus c)%nat ->
  placement c J (counts J (mapping J (filled c J))).
Proof.
  intros Map Fits. apply maps_placement with (filled c J); [apply Map; now apply filled_sum|].
  intros m _. unfold filled. lia.
Qed.

Lemma shortest_of c J : job_ok J -> (gpus J <= all_gpus c)%nat -> exists a, shortest_iteration c J a.
Proof.
  intros HJ Fits. apply shortest_exists; [exact HJ|]. eexists.
  now apply (tilde_placement c (heavy_edge c) J (heavy_edge_maps c)).
Qed.

Lemma shortest_positive c J a : cluster_ok c -> fast_links c -> job_ok J -> 0 < inside_seconds c J 0 ->
  shortest_iteration c J a -> 0 < a.
Proof.
  intros Hc Fast HJ Pos ((x & P & <-) & _). pose proof (inside_le_alpha c J x Hc HJ Fast P).
  pose proof (largest_ge (stages J) (inside_seconds c J) 0 (proj1 HJ)). lra.
Qed.

Lemma example_fast : fast_links example_cluster /\ fast_inside example_cluster.
Proof. unfold fast_links, fast_inside, share; cbn. lra. Qed.
Lemma example_shortest q : 0 <= q -> exists a, shortest_iteration example_cluster (example_job q) a /\ 0 < a.
Proof.
  intros Q. destruct (shortest_of example_cluster (example_job q) (example_job_ok q Q)) as (a & Ha); [cbn; lia|].
  exists a. split; [exact Ha|]. apply (shortest_positive example_cluster (example_job q));
    auto using example_cluster_ok, example_job_ok.
  - apply example_fast.
  - unfold inside_seconds; cbn. lra.
Qed.

(* Claim asrpt/alpha-order: alpha^min <= alpha~^min <= alpha^max if B_intra >= B_inter / g. This and what follows holds
   for all mappers, and so for Heavy-Edge (heavy_edge_maps). *)
Theorem alpha_order c mapping J least : cluster_ok c -> mapper_ok c mapping -> job_ok J -> (gpus J <= all_gpus c)%nat ->
  fast_inside c -> shortest_iteration c J least ->
  least <= alpha_tilde c mapping J <= alpha_max c J.
Proof.
  intros Hc Map HJ Fits Fast (_ & Least). pose proof (tilde_placement c mapping J Map Fits) as P. split.
  - now apply Least.
  - now apply alpha_max_fast_inside.
Qed.

Example alpha_order_met : can_be_met alpha_order.
Proof.
  intros H. destruct (example_shortest 1 Rle_0_1) as (a & Ha & _).
  apply (H example_cluster (heavy_edge example_cluster) (example_job 1) a example_cluster_ok (heavy_edge_maps _)
    (example_job_ok 1 Rle_0_1)); [cbn; lia|apply example_fast|exact Ha].
Qed.

Lemma one_server_use c J use w a : maps c J use w -> (a < servers c)%nat ->
  (forall m, (m < servers c)%nat -> use m = if Nat.eqb m a then gpus J else O) ->
  forall s r, (s < stages J)%nat -> (r < replicas J s)%nat -> w s r = a.
Proof.
  intros (Inside & Use) Ha One s r Hs Hr. specialize (Inside s r Hs Hr). specialize (Use _ Inside).
  destruct (Nat.eq_dec (w s r) a) as [|N]; [assumption|exfalso]. rewrite One in Use by exact Inside.
  apply Nat.eqb_neq in N. rewrite N in Use.
  pose proof (nsum_term (stages J) (fun s' => counts J w s' (w s r)) s Hs) as T. cbn in T.
  pose proof (nsum_term (replicas J s) (fun i => if Nat.eqb (w s i) (w s r) then 1%nat else O) r Hr) as T'.
  cbn in T'. rewrite Nat.eqb_refl in T'. unfold counts in *. lia.
Qed.

Lemma together_counts J w a : (forall s r, (s < stages J)%nat -> (r < replicas J s)%nat -> w s r = a) ->
  forall s m, (s < stages J)%nat -> counts J w s m = if Nat.eqb m a then replicas J s else O.
Proof.
  intros H s m Hs. unfold counts. rewrite (nsum_ext _ _ (fun _ => if Nat.eqb m a then 1%nat else O)).
  - destruct (Nat.eqb m a); [apply nsum_ones|now apply nsum_zero].
  - intros r Hr. now rewrite H, Nat.eqb_sym.
Qed.

(* Bytes on edges between servers; both ends count an edge. *)
Definition cut (J : job) (w : locations) : R :=
  let all := vertices J (stages J) in
  fold_right Rplus 0 (map (fun u => fold_right Rplus 0 (map (fun v =>
    if Nat.eqb (w (fst u) (snd u)) (w (fst v) (snd v)) then 0 else edge_bytes J u v) all)) all) / 2.

Lemma cut_together J w a : (forall s r, (s < stages J)%nat -> (r < replicas J s)%nat -> w s r = a) -> cut J w = 0.
Proof.
  intros H. unfold cut. assert (Z : forall l : list vertex, fold_right Rplus 0 (map (fun _ => 0) l) = 0).
  { induction l as [|v l IH]; cbn; [reflexivity|]. rewrite IH. ring. }
  assert (Inside : forall v, In v (vertices J (stages J)) -> w (fst v) (snd v) = a).
  { intros (s, r) I. apply vertices_spec in I. now apply H. }
  erewrite map_ext_in; [rewrite Z; field|]. intros u U. cbn.
  erewrite map_ext_in; [apply Z|]. intros v V. cbn. now rewrite (Inside u U), (Inside v V), Nat.eqb_refl.
Qed.

(* Claim asrpt/one-server: given the GPUs of one server, a, Heavy-Edge cuts nothing, and no placement is faster. *)
Theorem one_server c mapping J use a : cluster_ok c -> mapper_ok c mapping -> job_ok J -> fast_links c ->
  (a < servers c)%nat -> (gpus J <= per_server c)%nat ->
  (forall m, (m < servers c)%nat -> use m = if Nat.eqb m a then gpus J else O) ->
  cut J (mapping J use) = 0 /\
  placement c J (counts J (mapping J use)) /\
  forall y, placement c J y -> alpha c J (counts J (mapping J use)) <= alpha c J y.
Proof.
  intros Hc Map HJ Fast Ha Fits One.
  assert (Maps : maps c J use (mapping J use)).
  { apply Map. rewrite (nsum_ext _ _ _ One). now apply nsum_at. }
  pose proof (one_server_use c J use _ a Maps Ha One) as At. split; [now apply cut_together with a|split].
  - apply maps_placement with use; [exact Maps|]. intros m Hm. rewrite One by exact Hm. destruct Nat.eqb; lia.
  - intros y P. rewrite (alpha_together c J _ a Hc HJ Ha (together_counts J _ a At)). now apply inside_le_alpha.
Qed.

Definition large_servers : cluster := Cluster 2 4 2 4.
Lemma large_servers_ok : cluster_ok large_servers /\ fast_links large_servers.
Proof. unfold cluster_ok, fast_links; cbn. split; [split; [lia|lra]|lra]. Qed.

Example one_server_met : can_be_met one_server.
Proof.
  intros H. destruct large_servers_ok as (Hc & Fast).
  apply (H large_servers (heavy_edge large_servers) (example_job 1) (fun m => if Nat.eqb m 1 then 3 else 0)%nat 1%nat Hc
    (heavy_edge_maps _) (example_job_ok 1 Rle_0_1) Fast); cbn; lia || reflexivity.
Qed.

(* Claim asrpt/alpha-one-server: alpha~^min = alpha^min if the job fits on one server and B_intra >= B_inter. *)
Theorem alpha_one_server c mapping J least : cluster_ok c -> mapper_ok c mapping -> job_ok J -> fast_links c ->
  (1 <= servers c)%nat -> (gpus J <= per_server c)%nat -> shortest_iteration c J least ->
  alpha_tilde c mapping J = least.
Proof.
  intros Hc Map HJ Fast M Fits ((x & Px & Ax) & Least).
  destruct (one_server c mapping J (filled c J) 0 Hc Map HJ Fast M Fits) as (_ & P & Best).
  - intros [|m] _; unfold filled; cbn [Nat.eqb Nat.mul]; lia.
  - apply Rle_antisym; [rewrite <- Ax; now apply Best|now apply Least].
Qed.

Example alpha_one_server_met : can_be_met alpha_one_server.
Proof.
  intros H. destruct large_servers_ok as (Hc & Fast), (shortest_of large_servers (example_job 1)) as (a & Ha);
    [exact (example_job_ok 1 Rle_0_1)|cbn; lia|].
  apply (H large_servers (heavy_edge large_servers) (example_job 1) a Hc (heavy_edge_maps _) (example_job_ok 1 Rle_0_1)
    Fast);
    cbn; try lia. exact Ha.
Qed.

Lemma shortest_nonneg c J a : shortest_iteration c J a -> 0 <= a.
Proof. intros ((x & _ & <-) & _). apply largest_nonneg. Qed.

Lemma quotient_le a b q : 0 <= a -> 0 <= b -> 0 <= q -> a <= q * b -> a / b <= q.
Proof.
  intros A B Q L. destruct (Req_dec b 0) as [->|N].
  - replace a with 0 by lra. unfold Rdiv. lra.
  - apply Rmult_le_reg_r with b; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

(* rho = max over the jobs of alpha_i^max / alpha_i^min; a job without any work adds 0 / 0 = 0. *)
Definition rho (n : nat) (most least : nat -> R) : R := largest n (fun i => most i / least i).

(* Claim asrpt/alpha-ratio-bound: alpha^max <= (g B_intra / B_inter) alpha^min if B_intra >= B_inter, and so rho of n
   jobs and alpha~^min / alpha^min are at most that. *)
Theorem alpha_ratio_bound c mapping n (jobs : nat -> job) (least : nat -> R) :
  cluster_ok c -> mapper_ok c mapping -> fast_links c ->
  (forall i, (i < n)%nat -> job_ok (jobs i) /\ (gpus (jobs i) <= all_gpus c)%nat /\
    shortest_iteration c (jobs i) (least i)) ->
  let bound := INR (per_server c) * intra c / inter c in
  (forall i, (i < n)%nat ->
    alpha_max c (jobs i) <= bound * least i /\ alpha_tilde c mapping (jobs i) / least i <= bound) /\
  rho n (fun i => alpha_max c (jobs i)) least <= bound.
Proof.
  intros Hc Map Fast Jobs bound. pose proof (share_positive c Hc) as B. pose proof (share_le c Hc).
  assert (Inside : fast_inside c) by (unfold fast_inside, fast_links in *; lra).
  assert (Bound : bound = intra c / share c).
  { unfold bound, share. destruct Hc as (G & I & _). apply INR_positive in G. field. lra. }
  assert (One : 1 <= bound).
  { rewrite Bound. apply Rmult_le_reg_r with (share c); [exact B|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    unfold fast_inside in Inside. lra. }
  assert (Each : forall i, (i < n)%nat -> alpha_max c (jobs i) <= bound * least i).
  { intros i Hi. destruct (Jobs i Hi) as (HJ & _ & ((x & P & <-) & _)). rewrite alpha_max_apart by assumption.
    apply Rle_trans with (bound * largest (stages (jobs i)) (inside_seconds c (jobs i)));
      [|apply Rmult_le_compat_l; [lra|now apply inside_le_alpha]].
    apply largest_le; [apply Rmult_le_pos; [lra|apply largest_nonneg]|]. intros s Hs.
    apply Rle_trans with (bound * inside_seconds c (jobs i) s);
      [|apply Rmult_le_compat_l; [lra|now apply largest_ge]].
    pose proof (proj1 (proj2 HJ) s Hs) as (K & C & _). apply INR_positive in K.
    unfold apart_seconds, inside_seconds. rewrite !Rmult_plus_distr_l. destruct Hc as (_ & _ & In).
    repeat apply Rplus_le_compat.
    - rewrite <- (Rmult_1_l (compute (jobs i) s)) at 1. apply Rmult_le_compat_r; assumption.
    - right. rewrite Bound. field. lra.
    - right. rewrite Bound. field. lra. }
  split.
  - intros i Hi. split; [now apply Each|]. destruct (Jobs i Hi) as (HJ & Fits & Short).
    pose proof (shortest_nonneg _ _ _ Short).
    pose proof (alpha_order c mapping _ _ Hc Map HJ Fits Inside Short). specialize (Each i Hi).
    apply quotient_le; lra.
  - apply largest_le; [lra|]. intros i Hi. destruct (Jobs i Hi) as (_ & _ & Short).
    apply quotient_le; [apply largest_nonneg|now apply (shortest_nonneg c (jobs i))|lra|now apply Each].
Qed.

Example alpha_ratio_bound_met : can_be_met alpha_ratio_bound.
Proof.
  intros H. destruct (example_shortest 1 Rle_0_1) as (a & Ha & _).
  apply (H example_cluster (heavy_edge example_cluster) 2%nat (fun _ => example_job 1) (fun _ => a) example_cluster_ok
    (heavy_edge_maps _) (proj1 example_fast)).
  intros i _. split; [exact (example_job_ok 1 Rle_0_1)|split; [cbn; lia|exact Ha]].
Qed.

(* Stages of 2 and of g - 1 replicas that do not compute; the first one sends 2 bytes to the second. Over links of
   B bytes per second each AllReduce takes h / B seconds. *)
Definition two_and_rest (g : nat) (h : R) : job := Job 2 (fun s => match s with O => 2 | _ => g - 1 end)%nat
  (fun _ => 0) (fun s => match s with O => 0 | _ => 2 / INR (g - 1) end) (fun s => match s with O => 1 | _ => 0 end)
  (fun s => match s with O => h | _ => h * INR (g - 1) / (2 * (INR (g - 1) - 1)) end) 0 1 1.

(* Claim asrpt/alpha-ratio: for all g >= 3 and B_intra >= B_inter, on two servers or more, alpha~^min / alpha^min comes
   arbitrarily close to g B_intra / B_inter. *)
Theorem alpha_ratio c (e : R) : cluster_ok c -> fast_links c -> (2 <= servers c)%nat -> (3 <= per_server c)%nat ->
  0 < e -> let bound := INR (per_server c) * intra c / inter c in
  exists J, job_ok J /\ (gpus J <= all_gpus c)%nat /\ forall mapping least,
    mapper_ok c mapping -> shortest_iteration c J least ->
    0 < least /\ bound - e < alpha_tilde c mapping J / least <= bound.
Proof.
  intros Hc Fast M G He bound. pose proof (share_positive c Hc) as Bb. pose proof (share_le c Hc) as Sh.
  pose proof Hc as (_ & Bi & Ba). set (g := per_server c) in *. set (b := share c) in *. set (B := intra c) in *.
  assert (Inside : fast_inside c) by (unfold fast_inside, fast_links in *; fold b; lra).
  assert (Bound : bound = B / b).
  { unfold bound, b, share. fold g. assert (0 < INR g) by (apply INR_positive; lia). field. lra. }
  set (h := 2 * B * B / (b * b * e)).
  assert (Hh : 0 < h).
  { apply Rdiv_lt_0_compat; apply Rmult_lt_0_compat; try assumption; [lra|now apply Rmult_lt_0_compat]. }
  assert (K : 2 <= INR (g - 1)) by (apply (le_INR 2); lia).
  exists (two_and_rest g h). set (J := two_and_rest g h).
  assert (Rest : 0 < h * INR (g - 1) / (2 * (INR (g - 1) - 1)) /\ 0 < 2 / INR (g - 1) <= 1).
  { split; [apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat|]; lra|]. split; [apply Rdiv_lt_0_compat; lra|].
    apply quotient_le; lra. }
  assert (HJ : job_ok J).
  { unfold job_ok. change (stages J - 1)%nat with 1%nat. cbn -[INR Nat.sub].
    split; [lia|split; [|split; [lra|split; [lra|split; [|lra]]]]].
    - intros [|s] _; (split; [lia|]); lra.
    - intros [|s] Hs; [|lia]. cbn -[INR Nat.sub]. replace (INR 2) with 2 by (cbn; lra). field. lra. }
  assert (Sum : gpus J = (g + 1)%nat) by (unfold gpus, J; cbn [stages replicas two_and_rest nsum]; lia).
  assert (Fits : (gpus J <= all_gpus c)%nat).
  { rewrite Sum. unfold all_gpus. fold g. apply Nat.le_trans with (2 * g)%nat; [lia|]. now apply Nat.mul_le_mono_r. }
  assert (Reduce : forall s d, (s < stages J)%nat -> 0 < d ->
    2 * (INR (replicas J s) - 1) * parameters J s / (INR (replicas J s) * d) = h / d).
  { intros [|s] d _ D; unfold J, two_and_rest; cbn [replicas parameters]; [cbn; field; lra|field; lra]. }
  split; [exact HJ|split; [exact Fits|]]. intros mapping least Map Short.
  assert (Pos : 0 < least).
  { apply (shortest_positive c J least Hc Fast HJ); [|exact Short]. unfold inside_seconds. fold B.
    rewrite Reduce by (cbn; lia || lra). assert (0 < h / B) by (apply Rdiv_lt_0_compat; lra). cbn.
    assert (0 < (2 * 0 + 2 * 1) / B) by (apply Rdiv_lt_0_compat; lra). lra. }
  split; [exact Pos|].
  assert (Upper : alpha_tilde c mapping J / least <= bound).
  { destruct (alpha_ratio_bound c mapping 1 (fun _ => J) (fun _ => least) Hc Map Fast) as (Each & _).
    - intros i _. auto.
    - exact (proj2 (Each O Nat.lt_0_1)). }
  split; [|exact Upper]. pose proof (tilde_placement c mapping J Map Fits) as P.
  set (x := counts J (mapping J (filled c J))) in *.
  assert (Use : (x 0%nat 1%nat + x 1%nat 1%nat = 1)%nat).
  { destruct (Map J (filled c J)) as (_ & All); [now apply filled_sum|]. specialize (All 1%nat ltac:(lia)).
    unfold filled in All at 2. rewrite Sum in All. fold g in All. cbn [stages J two_and_rest nsum] in All.
    fold J in All. fold x in All. lia. }
  assert (Links : forall s y m, placement c J y -> (s < stages J)%nat -> (m < servers c)%nat -> (1 <= y s m)%nat ->
    0 <= comm c J y s m <= 2 / b).
  { intros s y m Py Hs Hm Y. pose proof (comm_bounds c J y s m Hc HJ Inside Hs Y
      (fun q Hq => placed_replicas c J y q m Py Hq Hm)) as L. fold b B in L.
    assert (D : 0 <= 2 * inputs J s + 2 * outputs J s <= 2)
      by (destruct s as [|s]; cbn [inputs outputs J two_and_rest]; lra).
    pose proof (div_nonneg _ B (proj1 D) Ba).
    assert ((2 * inputs J s + 2 * outputs J s) / b <= 2 / b)
      by (apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat|]; lra). lra. }
  assert (Slow : h / b <= alpha_tilde c mapping J).
  { change (alpha_tilde c mapping J) with (alpha c J x). clearbody x.
    assert (Single : exists s, (s < stages J)%nat /\ x s 1%nat = 1%nat).
    { destruct (x 0%nat 1%nat) as [|k] eqn:X; [exists 1%nat|exists 0%nat]; cbn [stages J two_and_rest]; lia. }
    destruct Single as (s & Hs & X1). apply Rle_trans with (beta c J x s 1).
    - unfold beta. rewrite X1. cbn [Nat.eqb]. pose proof (Links s x 1%nat P Hs ltac:(lia) ltac:(lia)).
      change (compute J s) with 0. enough (all_reduce c J x s 1 = h / b) by lra. unfold all_reduce. rewrite X1.
      assert (Split : (1 < replicas J s)%nat) by (destruct s; cbn [replicas J two_and_rest]; lia).
      apply Nat.ltb_lt in Split. rewrite Split, <- (Reduce s b Hs Bb). f_equal. unfold b, share. cbn [INR].
      field. apply not_0_INR. fold g. lia.
    - apply Rle_trans with (largest (servers c) (beta c J x s)); [apply largest_ge; lia|].
      now apply (largest_ge (stages J) (fun s => largest (servers c) (beta c J x s))). }
  assert (Quick : least <= h / B + 2 / b).
  { set (y := fun s m : nat => if Nat.eqb m s then replicas J s else 0%nat).
    assert (Py : placement c J y).
    { split.
      - intros s Hs. apply nsum_at. cbn in Hs. lia.
      - intros m _. unfold y. cbn [stages J two_and_rest nsum replicas]. fold g.
        destruct (Nat.eqb_spec m 0), (Nat.eqb_spec m 1); lia. }
    assert (0 < h / B /\ 0 < 2 / b) by (split; apply Rdiv_lt_0_compat; lra).
    apply Rle_trans with (alpha c J y); [now apply Short|].
    apply largest_le; [lra|]. intros s Hs. apply largest_le; [lra|]. intros m Hm. unfold beta.
    destruct (Nat.eqb_spec (y s m) 0) as [|Y]; [lra|]. pose proof (Links s y m Py Hs Hm ltac:(lia)).
    change (compute J s) with 0. enough (all_reduce c J y s m = h / B) by lra. unfold all_reduce. unfold y in *.
    destruct (Nat.eqb m s); [|lia]. rewrite Nat.ltb_irrefl. now apply Reduce. }
  apply Rlt_le_trans with (h / b / least); [|apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat|]; lra].
  apply Rmult_lt_reg_r with least; [exact Pos|]. replace (h / b / least * least) with (h / b) by (field; lra).
  rewrite Bound. assert (0 < h / b) by (apply Rdiv_lt_0_compat; lra).
  destruct (Rle_dec (B / b - e) 0) as [N|N].
  { assert ((B / b - e) * least <= 0 * least) by (apply Rmult_le_compat_r; lra). lra. }
  apply Rle_lt_trans with ((B / b - e) * (h / B + 2 / b)); [apply Rmult_le_compat_l; lra|].
  assert (E : e * (h / B) = 2 * B / (b * b)) by (unfold h; field; lra).
  replace ((B / b - e) * (h / B + 2 / b)) with (h / b + 2 * B / (b * b) - e * (h / B) - 2 * e / b) by (field; lra).
  assert (0 < 2 * e / b) by (apply Rdiv_lt_0_compat; lra). lra.
Qed.

Example alpha_ratio_met : can_be_met alpha_ratio.
Proof.
  intros H. destruct large_servers_ok as (Hc & Fast). apply (H large_servers 1 Hc Fast); cbn; lia || lra.
Qed.

(* -- schedules on the cluster -- *)

Definition runs_at (a b t : R) : bool := if Rle_dec a t then if Rlt_dec t b then true else false else false.

Lemma runs_at_spec a b t : runs_at a b t = true <-> a <= t < b.
Proof. unfold runs_at. destruct (Rle_dec a t), (Rlt_dec t b); split; intros H; try discriminate; auto; lra. Qed.
Lemma during_runs a b t : during a b t = if runs_at a b t then 1 else 0.
Proof. unfold during, runs_at. destruct (Rle_dec a t), (Rlt_dec t b); reflexivity. Qed.

(* t_i and x_{i,s}^m of each job. *)
Record plan := Plan { start : nat -> R; placed : nat -> table }.

(* GPUs of server m that a placement uses. *)
Definition used (J : job) (x : table) (m : nat) : nat := nsum (stages J) (fun s => x s m).

Section Cluster.
Variables (c : cluster) (n : nat) (jobs : nat -> job).

(* t_i + n_i alpha_i. *)
Definition finish (S : plan) (i : nat) : R := start S i + iterations (jobs i) * alpha c (jobs i) (placed S i).

(* eqs. (1) to (3), with t_i <= t < t_i + n_i alpha_i in eq. (3). *)
Definition cluster_schedule (S : plan) : Prop :=
  (forall i, (i < n)%nat -> arrival (jobs i) <= start S i /\ placement c (jobs i) (placed S i)) /\
  forall t m, (m < servers c)%nat ->
    (nsum n (fun i => if runs_at (start S i) (finish S i) t then used (jobs i) (placed S i) m else O)
      <= per_server c)%nat.

(* The sum of completion times. *)
Definition total (S : plan) : R := sum n (finish S).

Variable mapping : mapper.

(* g_i / G times a number of iterations times alpha~^min: seconds on the virtual machine. *)
Definition virtual_seconds (count : nat -> R) (i : nat) : R :=
  INR (gpus (jobs i)) / INR (all_gpus c) * count i * alpha_tilde c mapping (jobs i).
Definition arrivals (i : nat) : R := arrival (jobs i).
(* Instances A_1, of n_i iterations, and A~_1, of n~_i iterations: completion times by SRPT. *)
Definition machine_true (C : nat -> R) : Prop :=
  srpt_completions n arrivals (virtual_seconds (fun i => iterations (jobs i))) C.
Definition machine_predicted (C : nat -> R) : Prop :=
  srpt_completions n arrivals (virtual_seconds (fun i => predicted (jobs i))) C.

(* -- Algorithm 1 -- *)

(* When a job leaves the queue (line 7), when it starts, and where. *)
Record run := Run { popped : nat -> R; begun : nat -> R; site : nat -> locations }.

Variables (select : selector) (tau comm_heavy : R).
(* The times at which the scheduler acts, and the completion times on the virtual machine. *)
Variables (tick : R -> Prop) (C : nat -> R).

(* Line 2: the queue has the order of completion on the virtual machine; ties go to the first job. *)
Definition before (j i : nat) : bool :=
  if Rlt_dec (C j) (C i) then true else if Req_EM_T (C j) (C i) then Nat.ltb j i else false.

Section Run.
Variable A : run.
Definition planned : plan := Plan (begun A) (fun i => counts (jobs i) (site A i)).

(* Sum over the jobs before i that run at u; all others start after i has. *)
Definition held (i : nat) (u : R) (f : nat -> nat) : nat :=
  nsum n (fun j => if andb (before j i) (runs_at (begun A j) (finish planned j) u) then f j else O).
(* Free GPUs of server m when job i is considered. *)
Definition free (i : nat) (u : R) (m : nat) : nat :=
  (per_server c - held i u (fun j => used (jobs j) (placed planned j) m))%nat.

(* Line 4: job i is in the queue, and all jobs before it have started, delayed ones too (lines 16 to 20). *)
Definition head (i : nat) (u : R) : Prop :=
  C i <= u /\ forall j, (j < n)%nat -> before j i = true -> begun A j <= u.
(* Line 5: g_i <= available GPUs. *)
Definition fits (i : nat) (u : R) : Prop := (gpus (jobs i) + held i u (fun j => gpus (jobs j)) <= all_gpus c)%nat.
(* Lines 9 and 10 (most), or 22 and 23: GPUs of the servers with the most or the least available GPUs, then
   Heavy-Edge. *)
Definition offer (most : bool) (i : nat) (u : R) : locations := mapping (jobs i) (select most (jobs i) (free i u)).
(* Line 11: alpha_i of this placement. *)
Definition offered (most : bool) (i : nat) (u : R) : R := alpha c (jobs i) (counts (jobs i) (offer most i u)).
(* Line 8: alpha^max / alpha~^min >= COMM_HEAVY. *)
Definition heavy (i : nat) : bool :=
  if Rle_dec comm_heavy (alpha_max c (jobs i) / alpha_tilde c mapping (jobs i)) then true else false.
(* Line 12: a heavy job is delayed unless alpha_i / alpha~^min <= COMM_HEAVY, at the time p at which it leaves the
   queue. *)
Definition delayed (i : nat) (p : R) : bool :=
  andb (heavy i) (if Rle_dec (offered true i p / alpha_tilde c mapping (jobs i)) comm_heavy then false else true).
(* Lines 16 to 20: until there is a faster placement, or tau g_i/G n~_i alpha~_i^min seconds have passed. *)
Definition waited (i : nat) (p u : R) : Prop := p <= u /\
  (offered true i u < offered true i p \/ p + tau * virtual_seconds (fun i => predicted (jobs i)) i <= u).

(* Job i leaves the queue at p, starts at b, and runs at w; the jobs before it are as in A. *)
Definition decided (i : nat) (p b : R) (w : locations) : Prop :=
  first (fun u => tick u /\ head i u /\ fits i u) p /\
  (if delayed i p then first (fun u => tick u /\ waited i p u) b else b = p) /\
  w = offer (heavy i) i b.
(* A-SRPT's schedule. *)
Definition asrpt : Prop := forall i, (i < n)%nat -> decided i (popped A i) (begun A i) (site A i).
End Run.
End Cluster.

(* -- the order of the queue -- *)

Section Queue.
Variables (n : nat) (C : nat -> R).

Lemma before_spec j i : before C j i = true <-> C j < C i \/ C j = C i /\ (j < i)%nat.
Proof.
  unfold before. destruct (Rlt_dec (C j) (C i)), (Req_EM_T (C j) (C i)); rewrite ?Nat.ltb_lt; split; intros H;
    auto; try discriminate; try (exfalso; lra); try (destruct H as [H|(H & _)]; lra).
    destruct H as [H|(_ & H)]; [lra|auto].
Qed.
Lemma before_irreflexive i : before C i i = false.
Proof. apply not_true_is_false. rewrite before_spec. intros [H|(_ & H)]; [lra|lia]. Qed.
Lemma before_transitive i j k : before C i j = true -> before C j k = true -> before C i k = true.
Proof.
  rewrite !before_spec.
  intros [H|(H & L)] [H'|(H' & L')]; [left; lra|left; lra|left; lra|right; split; [lra|lia]].
Qed.
Lemma before_total i j : i = j \/ before C i j = true \/ before C j i = true.
Proof.
  rewrite !before_spec. destruct (Rtotal_order (C i) (C j)) as [H|[H|H]]; auto.
  destruct (Nat.lt_trichotomy i j) as [L|[L|L]]; auto.
Qed.
Lemma before_le j i : before C j i = true -> C j <= C i.
Proof. rewrite before_spec. intros [H|(H & _)]; lra. Qed.

(* Jobs before job i. *)
Definition rank (i : nat) : nat := nsum n (fun j => if before C j i then 1%nat else O).
Lemma rank_before j i : (j < n)%nat -> before C j i = true -> (rank j < rank i)%nat.
Proof.
  intros Hj B. apply (Nat.lt_le_trans _
    (nsum n (fun l => ((if before C l j then 1 else 0) + (if Nat.eqb l j then 1 else 0))%nat))).
  - rewrite nsum_plus, nsum_at by exact Hj. unfold rank. lia.
  - apply nsum_le. intros l Hl. destruct (Nat.eqb_spec l j) as [->|].
    + rewrite B, before_irreflexive. lia.
    + destruct (before C l j) eqn:E; [rewrite (before_transitive l j i E B)|destruct (before C l i)]; lia.
Qed.

Lemma queue_induction (P : nat -> Prop) :
  (forall i, (i < n)%nat -> (forall j, (j < n)%nat -> before C j i = true -> P j) -> P i) ->
  forall i, (i < n)%nat -> P i.
Proof.
  intros H. assert (K : forall k i, (i < n)%nat -> (rank i < k)%nat -> P i).
  { induction k as [|k IH]; intros i Hi L; [lia|]. apply H; [exact Hi|]. intros j Hj B.
    apply IH; [exact Hj|]. pose proof (rank_before j i Hj B). lia. }
  intros i Hi. now apply (K (S (rank i))); [|lia].
Qed.

(* The last of the jobs for which p holds. *)
Lemma last_of (p : nat -> bool) : (exists j, (j < n)%nat /\ p j = true) ->
  exists j, (j < n)%nat /\ p j = true /\ forall l, (l < n)%nat -> p l = true -> l = j \/ before C l j = true.
Proof.
  intros E. destruct (least_index n _ (fun j => - INR (rank j)) E) as (j & Hj & Pj & Last). exists j.
  repeat split; auto.
  intros l Hl Pl. destruct (before_total l j) as [|[B|B]]; auto. exfalso.
  specialize (Last l Hl Pl). apply Ropp_le_cancel, INR_le in Last. pose proof (rank_before j l Hj B). lia.
Qed.
(* The first of them. *)
Lemma first_of (p : nat -> Prop) : (exists j, (j < n)%nat /\ p j) ->
  exists j, (j < n)%nat /\ p j /\ forall l, (l < n)%nat -> before C l j = true -> ~ p l.
Proof.
  intros E. destruct (least_index n _ (fun j => INR (rank j)) E) as (j & Hj & Pj & First). exists j. repeat split; auto.
  intros l Hl B Pl. specialize (First l Hl Pl). apply INR_le in First. pose proof (rank_before l j Hl B). lia.
Qed.
End Queue.

(* -- what A-SRPT's schedules have in common -- *)

(* The jobs, which fit on the cluster, and the components of the algorithm. *)
Definition components (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) : Prop :=
  cluster_ok c /\ mapper_ok c mapping /\ selector_ok c select /\ forall i, (i < n)%nat ->
    job_ok (jobs i) /\ (gpus (jobs i) <= all_gpus c)%nat.
(* The same; least i is alpha_i^min. *)
Definition setting (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job)
    (least : nat -> R) : Prop :=
  cluster_ok c /\ mapper_ok c mapping /\ selector_ok c select /\ forall i, (i < n)%nat ->
    job_ok (jobs i) /\ (gpus (jobs i) <= all_gpus c)%nat /\ shortest_iteration c (jobs i) (least i).
(* alpha_i^min > 0, which rho and alpha^max / alpha^min need. *)
Definition positive (n : nat) (least : nat -> R) : Prop := forall i, (i < n)%nat -> 0 < least i.

Lemma setting_components c mapping select n jobs least : setting c mapping select n jobs least ->
  components c mapping select n jobs.
Proof.
  intros (Hc & Map & Select & Jobs). do 3 (split; [assumption|]). intros i Hi. now destruct (Jobs i Hi) as (? & ? & _).
Qed.

Lemma setting_exists c mapping select n jobs : components c mapping select n jobs ->
  exists least, setting c mapping select n jobs least.
Proof.
  intros (Hc & Map & Select & Jobs).
  destruct (finite_choice 0 n (fun i a => shortest_iteration c (jobs i) a)) as (least & Short).
  - intros i Hi. destruct (Jobs i Hi). now apply shortest_of.
  - exists least. do 3 (split; [assumption|]). intros i Hi. destruct (Jobs i Hi). auto.
Qed.

Section Facts.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) (least : nat -> R).
Variables (tau comm_heavy : R) (tick : R -> Prop) (C : nat -> R) (A : run).
Hypothesis Given : setting c mapping select n jobs least.
Hypothesis Algorithm : asrpt c n jobs mapping select tau comm_heavy tick C A.
Let running (j : nat) (u : R) : bool := runs_at (begun A j) (finish c jobs (planned jobs A) j) u.
Let gpus_on (j m : nat) : nat := used (jobs j) (placed (planned jobs A) j) m.
Let holding := held c n jobs C A.

Lemma popped_begun i : (i < n)%nat -> popped A i <= begun A i.
Proof.
  intros Hi. destruct (Algorithm i Hi) as (_ & B & _). destruct delayed; [|lra]. now destruct B as ((_ & W & _) & _).
Qed.

Lemma in_queue_order i j : (i < n)%nat -> (j < n)%nat -> before C j i = true -> begun A j <= popped A i.
Proof. intros Hi Hj B. destruct (Algorithm i Hi) as (((_ & (_ & H) & _) & _) & _). now apply H. Qed.

Lemma held_later i u v f : (i < n)%nat -> popped A i <= u -> u <= v -> (holding i v f <= holding i u f)%nat.
Proof.
  intros Hi U V. apply nsum_le. intros j Hj. destruct (before C j i) eqn:B; cbn [andb]; [|lia].
  pose proof (in_queue_order i j Hi Hj B). destruct (runs_at _ _ v) eqn:E; [|lia]. apply runs_at_spec in E.
  rewrite (proj2 (runs_at_spec _ _ u)); lia || lra.
Qed.

(* The jobs for which p holds and that run at u, if no such job is after job j. *)
Lemma running_sum (p : nat -> bool) j u f : (j < n)%nat ->
  (forall l, (l < n)%nat -> andb (p l) (running l u) = true -> l = j \/ before C l j = true) ->
  (nsum n (fun l => if andb (p l) (running l u) then f l else O) <= holding j u f + f j)%nat.
Proof.
  intros Hj H. rewrite <- (nsum_at n j (f j)) at 1 by exact Hj. unfold holding, held. rewrite <- nsum_plus.
  apply nsum_le. intros l Hl. specialize (H l Hl). fold (running l u).
  destruct (andb (p l) (running l u)) eqn:E; [|lia]. apply andb_prop in E. destruct E as (_ & E).
  destruct (H eq_refl) as [->|B]; [rewrite Nat.eqb_refl; lia|]. rewrite B, E. cbn. lia.
Qed.

Lemma capacity i : (i < n)%nat ->
  maps c (jobs i) (select (heavy c jobs mapping comm_heavy i) (jobs i) (free c n jobs C A i (begun A i))) (site A i) /\
  (forall m, (m < servers c)%nat -> (gpus_on i m <= free c n jobs C A i (begun A i) m)%nat) /\
  forall u m, (m < servers c)%nat ->
    (holding i u (fun j => gpus_on j m) + (if running i u then gpus_on i m else O) <= per_server c)%nat.
Proof.
  destruct Given as (Hc & Map & Select & Jobs). revert i. apply (queue_induction n C). intros i Hi IH.
  assert (Before : forall u m, (m < servers c)%nat -> (holding i u (fun j => gpus_on j m) <= per_server c)%nat).
  { intros u m Hm. destruct (classic (exists j, (j < n)%nat /\ andb (before C j i) (running j u) = true))
      as [Someone|No_one].
    - destruct (last_of n C _ Someone) as (j & Hj & R & Last). apply andb_prop in R as R'. destruct R' as (B & Rj).
      destruct (IH j Hj B) as (_ & _ & Cap). specialize (Cap u m Hm). rewrite Rj in Cap.
      pose proof (running_sum (fun l => before C l i) j u (fun j => gpus_on j m) Hj Last) as Sum.
      exact (Nat.le_trans _ _ _ Sum Cap).
    - unfold holding, held. rewrite nsum_zero; [lia|]. intros j Hj. fold (running j u).
      destruct (andb (before C j i) (running j u)) eqn:E; [|reflexivity]. exfalso. apply No_one. exists j; auto. }
  destruct (Algorithm i Hi) as (((_ & _ & Fits) & _) & _ & Site). pose proof (popped_begun i Hi) as PB.
  assert (Enough : (gpus (jobs i) <= nsum (servers c) (free c n jobs C A i (begun A i)))%nat).
  { assert (All : (nsum (servers c) (free c n jobs C A i (begun A i))
      + nsum (servers c) (fun m => holding i (begun A i) (fun j => gpus_on j m)) = all_gpus c)%nat).
    { rewrite <- nsum_plus. rewrite (nsum_ext _ _ (fun _ => per_server c)).
      - unfold all_gpus. clear. induction (servers c); cbn; lia.
      - intros m Hm. specialize (Before (begun A i) m Hm). unfold free. fold gpus_on. fold holding.
        change (fun j => used (jobs j) (placed (planned jobs A) j) m) with (fun j => gpus_on j m). lia. }
    assert (Held : (nsum (servers c) (fun m => holding i (begun A i) (fun j => gpus_on j m))
      <= holding i (begun A i) (fun j => gpus (jobs j)))%nat).
    { unfold holding, held. rewrite nsum_swap. apply nsum_le. intros j Hj. fold (running j (begun A i)).
      destruct (before C j i) eqn:B; cbn [andb]; [|now rewrite nsum_zero].
      destruct (running j (begun A i)); [|now rewrite nsum_zero].
      destruct (IH j Hj B) as ((Inside & _) & _). unfold gpus_on, used, gpus. rewrite nsum_swap. apply nsum_le.
      intros s Hs. cbn. rewrite counts_sum; [lia|]. intros r Hr. now apply Inside. }
    pose proof (held_later i (popped A i) (begun A i) (fun j => gpus (jobs j)) Hi ltac:(lra) PB).
    unfold fits in Fits. unfold holding in *. lia. }
  destruct (Select (heavy c jobs mapping comm_heavy i) (jobs i) _ Enough) as (Sum & Le & _).
  assert (Maps : maps c (jobs i) (select (heavy c jobs mapping comm_heavy i) (jobs i)
    (free c n jobs C A i (begun A i))) (site A i)).
  { rewrite Site. now apply Map. }
  assert (Use : forall m, (m < servers c)%nat -> (gpus_on i m <= free c n jobs C A i (begun A i) m)%nat).
  { intros m Hm. destruct Maps as (_ & Use). specialize (Le m Hm). rewrite <- Use in Le by exact Hm. exact Le. }
  split; [exact Maps|split; [exact Use|]]. intros u m Hm. destruct (running i u) eqn:E;
    [|specialize (Before u m Hm); lia].
  apply runs_at_spec in E. pose proof (held_later i (begun A i) u (fun j => gpus_on j m) Hi PB ltac:(lra)).
  specialize (Use m Hm). unfold free in Use. fold holding in Use.
  change (fun j => used (jobs j) (placed (planned jobs A) j) m) with (fun j => gpus_on j m) in Use.
  specialize (Before (begun A i) m Hm). lia.
Qed.

Lemma run_placement i : (i < n)%nat -> placement c (jobs i) (counts (jobs i) (site A i)).
Proof.
  intros Hi. destruct (capacity i Hi) as ((Inside & Use) & Le & _). split.
  - intros s Hs. apply counts_sum. intros r Hr. now apply Inside.
  - intros m Hm. specialize (Le m Hm). unfold free in Le. unfold gpus_on, used in Le. cbn in Le. lia.
Qed.

Lemma run_schedule : (forall i, (i < n)%nat -> arrival (jobs i) <= C i) -> cluster_schedule c n jobs (planned jobs A).
Proof.
  intros Late. split.
  - intros i Hi. split; [|now apply run_placement]. destruct (Algorithm i Hi) as (((_ & (H & _) & _) & _) & _).
    specialize (Late i Hi). pose proof (popped_begun i Hi). cbn. lra.
  - intros t m Hm. destruct (classic (exists j, (j < n)%nat /\ andb true (running j t) = true)) as [Someone|No_one].
    + destruct (last_of n C _ Someone) as (j & Hj & R & Last). destruct (capacity j Hj) as (_ & _ & Cap).
      specialize (Cap t m Hm).
      cbn [andb] in R. rewrite R in Cap.
      pose proof (running_sum (fun _ => true) j t (fun j => gpus_on j m) Hj Last). cbn [andb] in *.
      unfold running, gpus_on in *. cbn [start planned] in *. lia.
    + rewrite nsum_zero; [lia|]. intros j Hj. change (runs_at _ _ t) with (running j t).
      destruct (running j t) eqn:E; [|reflexivity]. exfalso. apply No_one. exists j; auto.
Qed.
End Facts.

(* -- the bounds -- *)

(* g^max, alpha^min = min over the jobs of alpha_i^min, and epsilon = sum over the jobs of |n_i - n~_i|. *)
Definition widest (n : nat) (jobs : nat -> job) : R := largest n (fun i => INR (gpus (jobs i))).
Fixpoint smallest (n : nat) (f : nat -> R) : R := match n with O => f O | S n => Rmin (smallest n f) (f n) end.
Definition error (J : job) : R := Rabs (iterations J - predicted J).
Definition total_error (n : nat) (jobs : nat -> job) : R := sum n (fun i => error (jobs i)).

Lemma smallest_le n f i : (i < n)%nat -> smallest n f <= f i.
Proof.
  induction n; intros Hi; [lia|]; cbn. destruct (Nat.eq_dec i n) as [->|]; [apply Rmin_r|].
  apply Rle_trans with (smallest n f); [apply Rmin_l|apply IHn; lia].
Qed.
Lemma smallest_positive n f : (1 <= n)%nat -> (forall i, (i < n)%nat -> 0 < f i) -> 0 < smallest n f.
Proof.
  intros N. induction N as [|n N IH]; intros H; cbn; apply Rmin_glb_lt; try (apply H; lia). apply IH.
  intros; apply H; lia.
Qed.

Lemma gpus_positive J : job_ok J -> (1 <= gpus J)%nat.
Proof.
  intros (St & Each & _). destruct (Each O St) as (K & _). pose proof (nsum_term (stages J) (replicas J) O St).
  unfold gpus. lia.
Qed.

(* most i is no less than any iteration of job i, and 0 if alpha_i^min is. *)
Definition bounded_by (c : cluster) (n : nat) (jobs : nat -> job) (least most : nat -> R) : Prop :=
  forall i, (i < n)%nat -> (forall x, placement c (jobs i) x -> alpha c (jobs i) x <= most i) /\
    (least i = 0 -> most i = 0).

Section Bounds.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) (least most : nat -> R).
Hypothesis Given : setting c mapping select n jobs least.
(* most i: printed alpha_i^max, or the longest iteration. *)
Hypothesis Longest : bounded_by c n jobs least most.

Let G : R := INR (all_gpus c).
Let g (i : nat) : R := INR (gpus (jobs i)).
Let tilde (i : nat) : R := alpha_tilde c mapping (jobs i).
Let size_true : nat -> R := virtual_seconds c jobs mapping (fun i => iterations (jobs i)).
Let size : nat -> R := virtual_seconds c jobs mapping (fun i => predicted (jobs i)).
Let ratio : R := rho n most least.

Lemma job_facts i : (i < n)%nat -> 1 <= g i /\ g i <= G /\ 0 <= arrival (jobs i) /\ 0 <= iterations (jobs i) /\
  0 <= predicted (jobs i) /\ 0 <= least i /\ least i <= tilde i /\ tilde i <= most i /\ most i <= ratio * least i /\
    0 <= ratio.
Proof.
  intros Hi. destruct Given as (_ & Map & _ & Jobs). destruct (Jobs i Hi) as (HJ & Fits & Short).
  pose proof (shortest_nonneg _ _ _ Short) as Pos. destruct Short as (_ & Least).
  pose proof (tilde_placement c mapping _ Map Fits) as P. pose proof (Least _ P) as L.
  destruct (Longest i Hi) as (Most & Idle). pose proof (Most _ P) as M.
  fold (tilde i) in L, M. change (alpha c (jobs i) _) with (tilde i) in L, M.
  pose proof (gpus_positive _ HJ) as G1. destruct HJ as (_ & _ & _ & _ & _ & R & N & Np).
  assert (Ratio : most i / least i <= ratio) by now apply (largest_ge n (fun i => most i / least i)).
  assert (Up : most i <= ratio * least i).
  { destruct (Req_dec (least i) 0) as [Z|]; [rewrite (Idle Z), Z; lra|].
    apply Rle_trans with (most i / least i * least i); [right; field; lra|]. apply Rmult_le_compat_r; lra. }
  repeat split; try assumption.
  - apply (le_INR 1); exact G1.
  - now apply le_INR.
  - apply largest_nonneg.
Qed.

Lemma ratio_one i : positive n least -> (i < n)%nat -> 1 <= ratio.
Proof.
  intros Pos Hi. specialize (Pos i Hi). destruct (job_facts i Hi) as (_ & _ & _ & _ & _ & _ & L & T & M & _).
  apply Rmult_le_reg_r with (least i); lra.
Qed.

Lemma size_facts i : (i < n)%nat -> 0 <= size i /\ 0 <= size_true i /\ G * size i = g i * predicted (jobs i) * tilde i.
Proof.
  intros Hi. destruct (job_facts i Hi) as (G1 & GG & _ & N & P & L & T & _). unfold size, size_true, virtual_seconds.
  fold G. fold (g i). fold (tilde i). assert (0 <= g i / G) by (apply div_nonneg; lra).
  split; [|split; [|field; lra]]; (apply Rmult_le_pos; [apply Rmult_le_pos|]; lra).
Qed.

(* n_i alpha_i^max seconds in total, compared with any schedule. *)
Lemma longest_total S : cluster_schedule c n jobs S ->
  sum n (fun i => iterations (jobs i) * most i) <= ratio * sum n (finish c jobs S).
Proof.
  intros (Starts & _). rewrite <- sum_scal. apply sum_le. intros i Hi.
  destruct (job_facts i Hi) as (_ & _ & R & N & _ & L & _ & _ & M & One). destruct (Starts i Hi) as (T & P).
  destruct Given as (_ & _ & _ & Jobs). destruct (Jobs i Hi) as (_ & _ & (_ & Least)). specialize (Least _ P).
  unfold finish. apply Rle_trans with (ratio * (iterations (jobs i) * least i)).
  - rewrite (Rmult_comm ratio), Rmult_assoc, (Rmult_comm _ ratio). now apply Rmult_le_compat_l.
  - apply Rmult_le_compat_l; [lra|].
    pose proof (Rmult_le_compat_l (iterations (jobs i)) _ _ N Least). lra.
Qed.

(* Lemma 1: job i gets the share g_i / G of the machine from rho t_i to rho (t_i + n_i alpha_i). *)
Lemma lemma_1 C S : positive n least -> machine_true c n jobs mapping C -> cluster_schedule c n jobs S ->
  sum n C <= ratio * sum n (finish c jobs S).
Proof.
  intros Pos (w & Srpt & HC) HS. destruct HS as (Starts & Capacity).
  assert (Length : forall i, (i < n)%nat -> 0 <= arrival (jobs i) <= start S i /\ start S i <= finish c jobs S i /\
    iterations (jobs i) * least i <= finish c jobs S i - start S i).
  { intros i Hi. destruct (job_facts i Hi) as (_ & _ & R & N & _ & L & _). destruct (Starts i Hi) as (T & P).
    destruct Given as (_ & _ & _ & Jobs). destruct (Jobs i Hi) as (_ & _ & (_ & Least)). specialize (Least _ P).
    pose proof (Rmult_le_compat_l _ _ _ N Least). pose proof (Rmult_le_pos _ _ N L).
    unfold finish. lra. }
  set (shared := fun i t => g i / G * spent (ratio * start S i) (ratio * finish c jobs S i) t).
  assert (Share : forall i, (i < n)%nat -> 0 <= g i / G).
  { intros i Hi. destruct (job_facts i Hi) as (G1 & GG & _). apply div_nonneg; lra. }
  assert (Scaled : forall i, (i < n)%nat -> 1 <= ratio /\ arrival (jobs i) <= ratio * start S i <=
    ratio * finish c jobs S i).
  { intros i Hi. pose proof (ratio_one i Pos Hi) as One. destruct (Length i Hi) as (R & F & _).
    pose proof (Rmult_le_compat_r (start S i) 1 ratio ltac:(lra) One).
    pose proof (Rmult_le_compat_l ratio _ _ ltac:(lra) F). lra. }
  assert (Shared : schedule n (arrivals jobs) shared).
  { split; [|split].
    - intros i t Hi T. unfold shared. destruct (Scaled i Hi). unfold arrivals in T. rewrite spent_before by lra. ring.
    - intros i s t Hi T. apply Rmult_le_compat_l; [now apply Share|now apply spent_mono].
    - intros s t T. rewrite sum_minus.
      assert (s + -1 * sum n (fun i => shared i s) <= t + -1 * sum n (fun i => shared i t)); [|lra].
      apply (increases (fun t => t + -1 * sum n (fun i => shared i t))
        (fun t => 1 + -1 * sum n (fun i => g i / G * during (ratio * start S i) (ratio * finish c jobs S i) t)));
        [|exact T|].
      + apply accumulates_plus; [apply accumulates_time|apply accumulates_scal, accumulates_sum].
        intros i _. apply accumulates_scal, accumulates_spent.
      + intros u _. enough (sum n (fun i => g i / G * during (ratio * start S i) (ratio * finish c jobs S i) u) <= 1)
          by lra.
        destruct (le_lt_dec n 0) as [|N]; [rewrite sum_zero; [lra|intros; lia]|].
        destruct (job_facts O N) as (G1 & GG & _). pose proof (ratio_one O Pos N) as One.
        assert (Run : forall i, (i < n)%nat -> during (ratio * start S i) (ratio * finish c jobs S i) u =
          if runs_at (start S i) (finish c jobs S i) (u / ratio) then 1 else 0).
        { intros i Hi. rewrite during_runs.
          assert (E : runs_at (ratio * start S i) (ratio * finish c jobs S i) u
            = runs_at (start S i) (finish c jobs S i) (u / ratio)); [|now rewrite E].
          assert (U : u = ratio * (u / ratio)) by (field; lra). rewrite U at 1. generalize (u / ratio) as q.
          clear - One.
          intros q. apply eq_true_iff_eq. rewrite !runs_at_spec. split; intros (H1 & H2); split.
          - apply Rmult_le_reg_l with ratio; lra.
          - apply Rmult_lt_reg_l with ratio; lra.
          - apply Rmult_le_compat_l; lra.
          - apply Rmult_lt_compat_l; lra. }
        assert (All : (nsum n (fun i => if runs_at (start S i) (finish c jobs S i) (u / ratio) then gpus (jobs i) else
          O)
          <= all_gpus c)%nat).
        { apply Nat.le_trans with (nsum (servers c) (fun _ => per_server c)).
          - apply Nat.le_trans with (nsum (servers c) (fun m => nsum n (fun i =>
              if runs_at (start S i) (finish c jobs S i) (u / ratio) then used (jobs i) (placed S i) m else O))).
            + rewrite nsum_swap. apply nsum_le. intros i Hi. destruct runs_at; [|lia].
              unfold used, gpus. rewrite nsum_swap. apply nsum_le. intros s' Hs.
              destruct (Starts i Hi) as (_ & (P & _)). rewrite <- (P s' Hs). apply Nat.le_refl.
            + apply nsum_le. intros m Hm. now apply Capacity.
          - unfold all_gpus. clear. induction (servers c); cbn; lia. }
        apply le_INR in All. fold G in All. rewrite INR_nsum in All.
        rewrite (sum_ext n _ (fun i => / G * INR (if runs_at (start S i) (finish c jobs S i) (u / ratio) then gpus
          (jobs i) else O))).
        * rewrite sum_scal. apply Rmult_le_reg_l with G; [lra|]. rewrite <- Rmult_assoc, Rinv_r; lra.
        * intros i Hi. rewrite Run by exact Hi. unfold g. destruct runs_at; cbn [INR]; unfold Rdiv; ring. }
  rewrite <- sum_scal. apply (srpt_optimal n (arrivals jobs) size_true w shared) with (C := C); auto.
  - intros i Hi. now destruct (Length i Hi).
  - intros i Hi. destruct (Scaled i Hi) as (One & R & F), (Length i Hi) as (_ & _ & Len).
    split; [unfold arrivals; lra|]. unfold shared. rewrite spent_after by lra.
    destruct (job_facts i Hi) as (_ & _ & _ & N & _ & L & _ & T & M & _).
    unfold size_true, virtual_seconds. fold (g i). fold G. fold (tilde i). rewrite Rmult_assoc.
    apply Rmult_le_compat_l; [now apply Share|].
    apply Rle_trans with (ratio * (iterations (jobs i) * least i)).
    + rewrite (Rmult_comm ratio), Rmult_assoc. apply Rmult_le_compat_l; [exact N|]. lra.
    + pose proof (Rmult_le_compat_l ratio _ _ ltac:(lra) Len). lra.
Qed.

(* Lemma 3, as in the last line of its proof. *)
Lemma lemma_3 C' C : machine_predicted c n jobs mapping C' -> machine_true c n jobs mapping C ->
  sum n C' <= sum n C + INR n * sum n (fun i => if Rlt_dec (iterations (jobs i)) (predicted (jobs i))
      then g i / G * error (jobs i) * tilde i else 0)
    - sum n (fun i => if Rlt_dec (predicted (jobs i)) (iterations (jobs i)) then g i / G * error (jobs i) * tilde i
        else 0).
Proof.
  intros (w' & Srpt' & HC') (w & Srpt & HC).
  destruct (sizes_change n (arrivals jobs) size_true size w C (proj1 Srpt)) as (v & Sv & Dv).
  { intros i Hi. now apply HC. }
  { intros i Hi. now apply size_facts. }
  assert (Opt := srpt_optimal n (arrivals jobs) size w' v ltac:(intros i Hi; now apply job_facts) Srpt' Sv C' _ HC' Dv).
  rewrite sum_minus, sum_plus, sum_const in Opt.
  assert (Change : forall i, (i < n)%nat ->
    Rmax 0 (size i - size_true i) = (if Rlt_dec (iterations (jobs i)) (predicted (jobs i))
      then g i / G * error (jobs i) * tilde i else 0) /\
    Rmax 0 (size_true i - size i) = (if Rlt_dec (predicted (jobs i)) (iterations (jobs i))
      then g i / G * error (jobs i) * tilde i else 0)).
  { intros i Hi. destruct (job_facts i Hi) as (G1 & GG & _ & _ & _ & L & T & _).
    assert (P : 0 <= g i / G * tilde i) by (apply Rmult_le_pos; [apply div_nonneg|]; lra).
    assert (D : size i - size_true i = g i / G * tilde i * (predicted (jobs i) - iterations (jobs i)))
      by (unfold size, size_true, virtual_seconds; fold G; fold (g i); fold (tilde i); ring).
    replace (size_true i - size i) with (- (size i - size_true i)) by ring. rewrite D. unfold error.
    destruct (Rlt_dec (iterations (jobs i)) (predicted (jobs i))) as [U|U];
      destruct (Rlt_dec (predicted (jobs i)) (iterations (jobs i))) as [V|V]; try lra.
    - pose proof (Rmult_le_pos _ (predicted (jobs i) - iterations (jobs i)) P ltac:(lra)).
      rewrite Rmax_right, Rmax_left, Rabs_left by lra. split; ring.
    - pose proof (Rmult_le_pos _ (iterations (jobs i) - predicted (jobs i)) P ltac:(lra)).
      rewrite Rmax_left, Rmax_right, Rabs_right by lra. split; ring.
    - replace (predicted (jobs i) - iterations (jobs i)) with 0 by lra.
      rewrite Rmult_0_r, Ropp_0. rewrite Rmax_left; lra. }
  rewrite (sum_ext n (fun i => Rmax 0 (size i - size_true i)) _ (fun i Hi => proj1 (Change i Hi))),
    (sum_ext n (fun i => Rmax 0 (size_true i - size i)) _ (fun i Hi => proj2 (Change i Hi))) in Opt.
  exact Opt.
Qed.

Let amax : R := largest n most.

Lemma error_nonneg i : 0 <= error (jobs i).
Proof. apply Rabs_pos. Qed.

Lemma most_facts i : (i < n)%nat -> 0 <= most i <= amax /\ g i <= widest n jobs.
Proof.
  intros Hi. destruct (job_facts i Hi) as (_ & _ & _ & _ & _ & L & T & M & _). split; [split; [lra|]|].
  - now apply largest_ge.
  - now apply (largest_ge n (fun i => INR (gpus (jobs i)))).
Qed.

(* Lemma 3 as printed. *)
Lemma lemma_3_printed C' C : machine_predicted c n jobs mapping C' -> machine_true c n jobs mapping C ->
  sum n C' <= sum n C + INR n * (widest n jobs * amax / G) * total_error n jobs.
Proof.
  intros H' H. eapply Rle_trans; [now apply (lemma_3 C' C)|].
  set (over := sum n (fun i => if Rlt_dec (iterations (jobs i)) _ then _ else 0)).
  set (under := sum n (fun i => if Rlt_dec (predicted (jobs i)) _ then _ else 0)).
  assert (Term : forall i, (i < n)%nat -> 0 <= g i / G * error (jobs i) * tilde i <=
    widest n jobs * amax / G * error (jobs i)).
  { intros i Hi. destruct (job_facts i Hi) as (G1 & GG & _ & _ & _ & L & T & M & _), (most_facts i Hi) as (Am & Wi).
    pose proof (error_nonneg i) as E. split.
    - repeat apply Rmult_le_pos; try lra. apply Rlt_le, Rinv_0_lt_compat. lra.
    - replace (g i / G * error (jobs i) * tilde i) with (g i * tilde i / G * error (jobs i)) by (field; lra).
      apply Rmult_le_compat_r; [exact E|]. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; lra|].
      apply Rmult_le_compat; lra. }
  assert (Under : 0 <= under).
  { apply sum_nonneg. intros i Hi. destruct (Term i Hi) as (T0 & T1). cbn beta.
    destruct (Rlt_dec (predicted (jobs i)) (iterations (jobs i))); lra. }
  assert (Over : over <= widest n jobs * amax / G * total_error n jobs).
  { unfold over, total_error. rewrite <- sum_scal. apply sum_le. intros i Hi. destruct (Term i Hi) as (T0 & T1).
    cbn beta. destruct (Rlt_dec (iterations (jobs i)) (predicted (jobs i))); lra. }
  pose proof (Rmult_le_compat_l (INR n) _ _ (pos_INR n) Over). lra.
Qed.

(* -- Lemma 2 -- *)

Section Waiting.
Variables (tau comm_heavy : R) (tick : R -> Prop) (C : nat -> R) (A : run) (K : R).
Hypothesis Algorithm : asrpt c n jobs mapping select tau comm_heavy tick C A.
Hypothesis Spare : 0 < K <= G - widest n jobs + 1.
Let S : plan := planned jobs A.
Let upto (i j : nat) : bool := orb (before C j i) (Nat.eqb j i).

(* Until job i starts, some job up to it is delayed, or does not fit beside those before job i. A scheduler that acts
   at v only sees at v what is so at u. *)
Lemma waits_for i u v : (i < n)%nat -> C i <= v -> v <= u -> u < begun A i -> tick v ->
  (forall j, (j < n)%nat -> before C j i = true ->
    (begun A j <= u -> begun A j <= v) /\ (begun A j <= v -> v < finish c jobs S j -> u < finish c jobs S j)) ->
  exists j, (j < n)%nat /\ upto i j = true /\ (popped A j <= u < begun A j \/
    (all_gpus c < gpus (jobs j) + nsum n (fun l =>
      if andb (before C l i) (runs_at (begun A l) (finish c jobs S l) u) then gpus (jobs l) else O))%nat).
Proof.
  intros Hi Cv Vu Ub Tv Seen.
  destruct (first_of n C (fun j => upto i j = true /\ u < begun A j)) as (j & Hj & (Up & Uj) & First).
  { exists i. unfold upto. rewrite Nat.eqb_refl, orb_true_r. auto. }
  exists j. split; [exact Hj|split; [exact Up|]].
  assert (Chain : forall l, before C l j = true -> before C l i = true).
  { intros l B. unfold upto in Up. apply orb_prop in Up. destruct Up as [Up|Up].
    - now apply (before_transitive C l j i).
    - apply Nat.eqb_eq in Up. now subst j. }
  assert (Cj : C j <= C i).
  { unfold upto in Up. apply orb_prop in Up. destruct Up as [Up|Up]; [now apply before_le|].
    apply Nat.eqb_eq in Up. subst j. lra. }
  assert (Head : head n C A j v).
  { split; [lra|]. intros l Hl B. destruct (Seen l Hl (Chain l B)) as (Begun & _). apply Begun.
    apply Rnot_lt_le. intros U. apply (First l Hl B). split; [|exact U]. unfold upto. now rewrite (Chain l B). }
  destruct (Rle_dec (popped A j) u) as [P|P]; [left; lra|right].
  destruct (Algorithm j Hj) as ((_ & Least) & _). apply Nat.nle_gt. intros Fits.
  assert (popped A j <= v); [|lra]. apply Least. split; [exact Tv|split; [exact Head|]].
  unfold fits. eapply Nat.le_trans; [|exact Fits]. apply Nat.add_le_mono_l, nsum_le. intros l Hl.
  destruct (before C l j) eqn:B; cbn [andb]; [|lia]. destruct (runs_at _ _ v) eqn:R; [|lia].
  apply runs_at_spec in R. fold S in R. destruct (Seen l Hl (Chain l B)) as (_ & Ends). rewrite (Chain l B).
  specialize (Ends (proj1 R) (proj2 R)). rewrite (proj2 (runs_at_spec _ _ u)); cbn; lia || lra.
Qed.

Lemma run_length j : (j < n)%nat -> 0 <= finish c jobs S j - begun A j <= iterations (jobs j) * most j.
Proof.
  intros Hj. destruct (job_facts j Hj) as (_ & _ & _ & N & _).
  pose proof (run_placement c mapping select n jobs least tau comm_heavy tick C A Given Algorithm j Hj) as P.
  pose proof (proj1 (Longest j Hj) _ P). unfold finish, S. cbn [start placed planned].
  pose proof (largest_nonneg (stages (jobs j)) (fun s => largest (servers c)
    (beta c (jobs j) (counts (jobs j) (site A j)) s))) as A0.
  fold (alpha c (jobs j) (counts (jobs j) (site A j))) in A0.
  pose proof (Rmult_le_pos _ _ N A0). pose proof (Rmult_le_compat_l _ _ _ N H). lra.
Qed.

(* From a on job i is in the queue. *)
Lemma waiting_time i a : (i < n)%nat ->
  (forall u, a <= u < begun A i -> exists v, C i <= v /\ v <= u /\ tick v /\
    forall j, (j < n)%nat -> before C j i = true ->
      (begun A j <= u -> begun A j <= v) /\ (begun A j <= v -> v < finish c jobs S j -> u < finish c jobs S j)) ->
  begun A i <= a + sum n (fun j => if upto i j then begun A j - popped A j else 0)
    + sum n (fun j => if before C j i then g j / K * (iterations (jobs j) * most j) else 0).
Proof.
  intros Hi Seen.
  assert (Delays : 0 <= sum n (fun j => if upto i j then begun A j - popped A j else 0)).
  { apply sum_nonneg. intros j Hj. destruct (upto i j); [|lra].
    pose proof (popped_begun c mapping select n jobs tau comm_heavy tick C A Algorithm j Hj). lra. }
  assert (Works : 0 <= sum n (fun j => if before C j i then g j / K * (iterations (jobs j) * most j) else 0)).
  { apply sum_nonneg. intros j Hj. destruct (before C j i); [|lra]. destruct (job_facts j Hj) as (G1 & _).
    pose proof (run_length j Hj). apply Rmult_le_pos; [apply div_nonneg; lra|lra]. }
  destruct (Rle_dec a (begun A i)) as [Late|]; [|lra].
  set (d := fun j => if upto i j then 1 else 0). set (b := fun j => if before C j i then g j / K else 0).
  set (F := fun t => sum n (fun j => d j * spent (popped A j) (begun A j) t)
    + (sum n (fun j => b j * spent (begun A j) (finish c jobs S j) t) + -1 * t)).
  assert (Up : F a <= F (begun A i)).
  { apply (increases F (fun t => sum n (fun j => d j * during (popped A j) (begun A j) t)
      + (sum n (fun j => b j * during (begun A j) (finish c jobs S j) t) + -1 * 1))); [|exact Late|].
    - apply accumulates_plus; [|apply accumulates_plus; [|apply accumulates_scal, accumulates_time]];
        apply accumulates_sum; intros; apply accumulates_scal, accumulates_spent.
    - intros u U. destruct (Seen u U) as (v & Cv & Vu & Tv & Same).
      destruct (waits_for i u v Hi Cv Vu (proj2 U) Tv Same) as (j & Hj & Uj & Why).
      assert (D : forall l, (l < n)%nat -> 0 <= d l * during (popped A l) (begun A l) u).
      { intros l _. unfold d. rewrite during_runs. destruct (upto i l), runs_at; lra. }
      assert (B : forall l, (l < n)%nat -> 0 <= b l * during (begun A l) (finish c jobs S l) u).
      { intros l Hl. unfold b. rewrite during_runs. destruct (job_facts l Hl) as (G1 & _).
        assert (0 <= g l / K) by (apply div_nonneg; lra). destruct (before C l i), runs_at; lra. }
      destruct Why as [Why|Why].
      + pose proof (sum_term n _ j D Hj) as One. cbn in One. unfold d at 1 in One. rewrite Uj, during_runs in One.
        rewrite (proj2 (runs_at_spec _ _ u) Why) in One. pose proof (sum_nonneg n _ B). lra.
      + pose proof (le_INR _ _ Why) as W. rewrite S_INR, plus_INR, INR_nsum in W. fold G in W. fold (g j) in W.
        pose proof (sum_nonneg n _ D) as D0. destruct (most_facts j Hj) as (_ & Wj).
        enough (1 <= sum n (fun l => b l * during (begun A l) (finish c jobs S l) u)) by lra.
        apply Rmult_le_reg_l with K; [lra|]. rewrite <- sum_scal.
        rewrite (sum_ext n _ (fun l => INR (if andb (before C l i) (runs_at (begun A l) (finish c jobs S l) u)
          then gpus (jobs l) else O))); [lra|].
        intros l _. unfold b. rewrite during_runs. unfold g.
        destruct (before C l i), (runs_at (begun A l) (finish c jobs S l) u); cbn [andb]; change (INR 0) with 0; field;
          lra. }
  assert (Low : - a <= F a).
  { unfold F. assert (0 <= sum n (fun j => d j * spent (popped A j) (begun A j) a)
      /\ 0 <= sum n (fun j => b j * spent (begun A j) (finish c jobs S j) a)); [|lra].
    split; apply sum_nonneg; intros j Hj; (apply Rmult_le_pos; [|apply spent_nonneg]).
    - unfold d. destruct (upto i j); lra.
    - unfold b. destruct (job_facts j Hj) as (G1 & _). destruct (before C j i); [apply div_nonneg; lra|lra]. }
  assert (High : F (begun A i) <= sum n (fun j => if upto i j then begun A j - popped A j else 0)
    + sum n (fun j => if before C j i then g j / K * (iterations (jobs j) * most j) else 0) - begun A i).
  { unfold F. assert (sum n (fun j => d j * spent (popped A j) (begun A j) (begun A i))
      <= sum n (fun j => if upto i j then begun A j - popped A j else 0)
      /\ sum n (fun j => b j * spent (begun A j) (finish c jobs S j) (begun A i))
      <= sum n (fun j => if before C j i then g j / K * (iterations (jobs j) * most j) else 0)); [|lra].
    split; apply sum_le; intros j Hj.
    - pose proof (popped_begun c mapping select n jobs tau comm_heavy tick C A Algorithm j Hj).
      pose proof (spent_le (popped A j) (begun A j) (begun A i) ltac:(lra)). unfold d. destruct (upto i j); lra.
    - pose proof (run_length j Hj). pose proof (spent_le (begun A j) (finish c jobs S j) (begun A i) ltac:(lra)).
      unfold b. destruct (job_facts j Hj) as (G1 & _). destruct (before C j i); [|lra].
      apply Rmult_le_compat_l; [apply div_nonneg; lra|lra]. }
  lra.
Qed.

Hypothesis Tau : 0 <= tau.
(* The machine has done what it has completed. *)
Hypothesis Machine : forall i, (i < n)%nat -> sum n (fun j => if Rle_dec (C j) (C i) then size j else 0) <= C i.
(* No job is delayed longer than tau allows. *)
Hypothesis Delay : forall j, (j < n)%nat -> begun A j - popped A j <= tau * size j.

(* eq. (12), with the moment a from which job i is in the queue. *)
Lemma completion_bound i a : (i < n)%nat ->
  (forall u, a <= u < begun A i -> exists v, C i <= v /\ v <= u /\ tick v /\
    forall j, (j < n)%nat -> before C j i = true ->
      (begun A j <= u -> begun A j <= v) /\ (begun A j <= v -> v < finish c jobs S j -> u < finish c jobs S j)) ->
  finish c jobs S i <= a + (tau + ratio * G / K) * C i + widest n jobs * amax / K * total_error n jobs
    + iterations (jobs i) * most i.
Proof.
  intros Hi Seen. pose proof (waiting_time i a Hi Seen) as W. pose proof (run_length i Hi) as R.
  set (work_done := fun j => if Rle_dec (C j) (C i) then size j else 0).
  assert (Done : sum n work_done <= C i) by now apply Machine.
  assert (Ci : 0 <= C i).
  { apply Rle_trans with (sum n work_done); [|exact Done]. apply sum_nonneg. intros j Hj. unfold work_done.
    destruct (size_facts j Hj). destruct Rle_dec; lra. }
  assert (Delays : sum n (fun j => if upto i j then begun A j - popped A j else 0) <= tau * C i).
  { apply Rle_trans with (tau * sum n work_done); [|now apply Rmult_le_compat_l]. rewrite <- sum_scal.
    apply sum_le. intros j Hj. specialize (Delay j Hj). destruct (size_facts j Hj) as (S0 & _). unfold work_done, upto.
    pose proof (Rmult_le_pos _ _ Tau S0).
    destruct (before C j i) eqn:B; cbn [orb].
    - apply before_le in B. destruct Rle_dec; lra.
    - destruct (Nat.eqb_spec j i) as [->|]; destruct Rle_dec; lra. }
  assert (Works : sum n (fun j => if before C j i then g j / K * (iterations (jobs j) * most j) else 0)
    <= ratio * G / K * C i + widest n jobs * amax / K * total_error n jobs).
  { apply Rle_trans with (ratio * G / K * sum n work_done + widest n jobs * amax / K * total_error n jobs).
    - unfold total_error. rewrite <- !sum_scal, <- sum_plus. apply sum_le. intros j Hj.
      destruct (job_facts j Hj) as (G1 & GG & _ & N & P & L & T & M & Up & One).
      destruct (most_facts j Hj) as (Am & Wj). destruct (size_facts j Hj) as (S0 & _ & Size).
      pose proof (error_nonneg j) as E0.
      assert (Err : 0 <= widest n jobs * amax / K * error (jobs j)).
      { apply Rmult_le_pos; [apply div_nonneg; [apply Rmult_le_pos|]|]; lra. }
      assert (Pos : 0 <= ratio * G / K * work_done j).
      { unfold work_done. apply Rmult_le_pos; [apply div_nonneg; [apply Rmult_le_pos|]; lra|]. destruct Rle_dec; lra. }
      destruct (before C j i) eqn:B; [|lra]. apply before_le in B. unfold work_done. destruct Rle_dec; [|lra].
      assert (Nj : iterations (jobs j) <= predicted (jobs j) + error (jobs j)).
      { unfold error. pose proof (Rle_abs (iterations (jobs j) - predicted (jobs j))). lra. }
      assert (Main : g j * (iterations (jobs j) * most j) <= ratio * (G * size j) +
        widest n jobs * amax * error (jobs j)).
      { rewrite Size. apply Rle_trans with (g j * ((predicted (jobs j) + error (jobs j)) * most j)).
        - apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat_r; lra.
        - assert (A1 : most j <= ratio * tilde j).
          { pose proof (Rmult_le_compat_l ratio _ _ ltac:(lra) T). lra. }
          assert (A2 : g j * predicted (jobs j) * most j <= g j * predicted (jobs j) * (ratio * tilde j)).
          { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|exact A1]. }
          assert (A3 : g j * most j <= widest n jobs * amax) by (apply Rmult_le_compat; lra).
          pose proof (Rmult_le_compat_r _ _ _ E0 A3). lra. }
      apply (Rmult_le_compat_r (/ K)) in Main; [|apply Rlt_le, Rinv_0_lt_compat; lra].
      unfold Rdiv in *. lra.
    - apply Rplus_le_compat_r, Rmult_le_compat_l; [|exact Done].
      destruct (job_facts i Hi) as (_ & _ & _ & _ & _ & _ & _ & _ & _ & One).
      apply div_nonneg; [apply Rmult_le_pos; [lra|apply pos_INR]|lra]. }
  lra.
Qed.

(* Lemma 2: the sum, if each job is in the queue within d seconds after its virtual completion. *)
Lemma lemma_2 d other : cluster_schedule c n jobs other ->
  (forall i, (i < n)%nat -> finish c jobs S i <= C i + d + (tau + ratio * G / K) * C i
    + widest n jobs * amax / K * total_error n jobs + iterations (jobs i) * most i) ->
  sum n (finish c jobs S) <= (1 + tau + ratio * G / K) * sum n C
    + INR n * (widest n jobs * amax / K) * total_error n jobs + ratio * sum n (finish c jobs other) + INR n * d.
Proof.
  intros Other Each. pose proof (longest_total other Other) as Total.
  apply Rle_trans with (sum n (fun i => (1 + tau + ratio * G / K) * C i
    + (d + widest n jobs * amax / K * total_error n jobs) + iterations (jobs i) * most i)).
  - apply sum_le. intros i Hi. specialize (Each i Hi). lra.
  - rewrite !sum_plus, sum_scal, !sum_const. lra.
Qed.
End Waiting.

(* -- Theorem 1 -- *)

Lemma theorem_1 tau C K S gamma extra : positive n least -> 0 <= tau -> 0 < K ->
  (forall i, (i < n)%nat -> 1 <= iterations (jobs i)) -> machine_predicted c n jobs mapping C ->
    cluster_schedule c n jobs S ->
  gamma <= (1 + tau + ratio * G / K) * sum n C + INR n * (widest n jobs * amax / K) * total_error n jobs
    + ratio * sum n (finish c jobs S) + extra ->
  gamma <= ((2 + tau + ratio * G / K) * ratio
    + 2 * ratio * widest n jobs * amax / smallest n least * (1 + tau + (1 + ratio) * G / K) *
        (total_error n jobs / INR n))
    * sum n (finish c jobs S) + extra.
Proof.
  intros Positive Tau K0 Long Hp HS L2. destruct (le_lt_dec n 0) as [Z|N].
  { assert (Zero : forall f, sum n f = 0) by (intros; apply sum_zero; intros; lia).
    unfold total_error in L2. rewrite !Zero in L2. rewrite Zero. lra. }
  destruct (srpt_schedules n (arrivals jobs) size_true) as (C1 & H1); [intros i Hi; now apply job_facts|].
  pose proof (lemma_1 C1 S Positive H1 HS) as L1. pose proof (lemma_3_printed C C1 Hp H1) as L3.
  pose proof (smallest_positive n least N) as Small.
  assert (Pos : 0 < smallest n least) by now apply Small.
  destruct (job_facts 0 N) as (G1 & GG & _ & _ & _ & _ & _ & _ & _ & One).
  assert (Many : smallest n least / G * INR n * INR n <= 2 * sum n C1).
  { apply completions_at_least with (arrivals jobs) size_true; [|apply div_nonneg; lra|exact H1].
    intros i Hi. destruct (job_facts i Hi) as (Gi & _ & R & _ & _ & L & T & _). split; [exact R|].
    unfold size_true, virtual_seconds. fold (g i). fold G. fold (tilde i). specialize (Long i Hi).
    pose proof (smallest_le n least i Hi) as Sm. unfold Rdiv. rewrite (Rmult_comm (smallest n least)).
    rewrite (Rmult_comm (g i)), !Rmult_assoc. apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat; lra|].
    apply Rle_trans with (1 * (1 * tilde i)); [lra|]. apply Rmult_le_compat; try lra. apply Rmult_le_compat_r; lra. }
  destruct (most_facts 0 N) as (Am & Wi). apply INR_positive in N as NR.
  assert (E0 : 0 <= total_error n jobs) by (apply sum_nonneg; intros; apply error_nonneg).
  set (opt := sum n (finish c jobs S)) in *. set (w := widest n jobs * amax) in *. set (E := total_error n jobs) in *.
  set (kappa := ratio * G / K) in *.
  assert (Kappa : 0 <= kappa) by (apply div_nonneg; [apply Rmult_le_pos; lra|lra]).
  assert (W0 : 0 <= w) by (apply Rmult_le_pos; lra).
  assert (Wide : INR n / G <= 2 * ratio * opt / (smallest n least * INR n)).
  { apply Rmult_le_reg_r with (smallest n least * INR n); [now apply Rmult_lt_0_compat|].
    replace (INR n / G * (smallest n least * INR n)) with (smallest n least / G * INR n * INR n) by (field; lra).
    replace (2 * ratio * opt / (smallest n least * INR n) * (smallest n least * INR n)) with (2 * (ratio * opt))
      by (field; lra). lra. }
  assert (Q : 0 <= w * E * (1 + tau + (1 + ratio) * G / K)).
  { apply Rmult_le_pos; [now apply Rmult_le_pos|]. assert (0 <= (1 + ratio) * G / K); [|lra].
    apply div_nonneg; [apply Rmult_le_pos; lra|lra]. }
  apply (Rmult_le_compat_l _ _ _ Q) in Wide.
  assert (Sum : (1 + tau + kappa) * sum n C <= (1 + tau + kappa) * (ratio * opt + INR n * (w / G) * E)).
  { apply Rmult_le_compat_l; [lra|]. lra. }
  apply Rle_trans with ((2 + tau + kappa) * ratio * opt + w * E * (1 + tau + (1 + ratio) * G / K) * (INR n / G) +
    extra).
  - apply (Rle_trans _ _ _ L2). apply Rplus_le_compat_r.
    replace (w * E * (1 + tau + (1 + ratio) * G / K) * (INR n / G))
      with ((1 + tau + kappa) * (INR n * (w / G) * E) + INR n * (w / K) * E) by (unfold kappa; field; lra).
    lra.
  - apply Rplus_le_compat_r. rewrite (Rmult_plus_distr_r ((2 + tau + kappa) * ratio)). apply Rplus_le_compat_l.
    apply (Rle_trans _ _ _ Wide). right.
    unfold w. field. lra.
Qed.
End Bounds.

(* -- A-SRPT's schedule exists -- *)

(* The scheduler acts at all times, or in slots of one second. *)
Definition always (t : R) : Prop := True.
Definition slot_times (t : R) : Prop := exists k : nat, t = INR k.
Definition clock (tick : R -> Prop) : Prop :=
  (forall u, tick u \/ exists e, 0 < e /\ forall v, u < v < u + e -> ~ tick v) /\ forall u, exists v, u <= v /\ tick v.

Lemma clock_always : clock always.
Proof. split; intros u; [now left|]. exists u. split; [lra|exact I]. Qed.
Lemma clock_slots : clock slot_times.
Proof.
  split; intros u.
  - destruct (Rlt_dec u 0) as [L|L].
    + right. exists (- u). split; [lra|]. intros v V (k & ->). pose proof (pos_INR k). lra.
    + destruct (nat_floor u ltac:(lra)) as (k & K). destruct (Req_dec u (INR k)) as [->|N]; [left; now exists k|].
      right. exists (INR k + 1 - u). split; [lra|]. intros v V (j & ->). rewrite <- S_INR in *.
      assert (INR k < INR j < INR (S k)) as (L1 & L2) by lra. apply INR_lt in L1, L2. lia.
  - destruct (INR_above u) as (k & K). exists (INR k). split; [lra|now exists k].
Qed.

Lemma first_tick tick (Q : R -> Prop) s t : clock tick -> tick t -> Q t -> (forall u, Q u -> s <= u) ->
  (forall u, ~ Q u -> exists e, 0 < e /\ forall v, u < v < u + e -> ~ Q v) ->
  exists u, first (fun u => tick u /\ Q u) u.
Proof.
  intros (Gaps & _) Tt Qt Low Open. apply (first_exists _ s t); [auto|intros u (_ & H); now apply Low|].
  intros u N. destruct (Gaps u) as [Tu|(e & E & Gap)].
  - destruct (Open u) as (e & E & No); [tauto|]. exists e. split; [exact E|]. intros v V (_ & H). now apply (No v).
  - exists e. split; [exact E|]. intros v V (H & _). now apply (Gap v).
Qed.

Lemma first_iff (P Q : R -> Prop) t : (forall u, P u <-> Q u) -> first P t -> first Q t.
Proof. intros E (Pt & Least). split; [now apply E|]. intros u Qu. apply Least. now apply E. Qed.

Section Exists.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job).
Variables (tau comm_heavy : R) (tick : R -> Prop) (C : nat -> R).
Hypothesis Clock : clock tick.
Hypothesis Fits : forall i, (i < n)%nat -> (gpus (jobs i) <= all_gpus c)%nat.
Let decides := decided c n jobs mapping select tau comm_heavy tick C.

(* For some time after u the same jobs run. *)
Lemma steady A i u : exists e, 0 < e /\ forall v, u <= v < u + e ->
  (forall f, held c n jobs C A i v f = held c n jobs C A i u f) /\ free c n jobs C A i v = free c n jobs C A i u /\
  forall most, offered c n jobs mapping select C A most i v = offered c n jobs mapping select C A most i u.
Proof.
  destruct (before_next n (begun A) u) as (e & E & Begun), (before_next n (finish c jobs (planned jobs A)) u)
    as (d & D & Ends).
  exists (Rmin e d). split; [now apply Rmin_glb_lt|]. intros v V. pose proof (Rmin_l e d). pose proof (Rmin_r e d).
  assert (Held : forall f, held c n jobs C A i v f = held c n jobs C A i u f).
  { intros f. apply nsum_ext. intros j Hj. specialize (Begun j Hj). specialize (Ends j Hj).
    assert (R : runs_at (begun A j) (finish c jobs (planned jobs A) j) v = runs_at (begun A j)
      (finish c jobs (planned jobs A) j) u);
      [|now rewrite R].
    apply eq_true_iff_eq. rewrite !runs_at_spec. split; intros (H1 & H2).
    - split; [|lra]. apply Rnot_lt_le. intros F. specialize (Begun F). lra.
    - specialize (Ends H2). lra. }
  assert (Free : free c n jobs C A i v = free c n jobs C A i u).
  { apply functional_extensionality. intros m. unfold free. now rewrite Held. }
  split; [exact Held|split; [exact Free|]]. intros most. unfold offered, offer. now rewrite Free.
Qed.

Lemma decision A i : (i < n)%nat -> exists p b w, decides A i p b w.
Proof.
  intros Hi.
  assert (Popped : exists p, first (fun u => tick u /\ head n C A i u /\ fits c n jobs C A i u) p).
  { destruct (proj2 Clock (Rabs (C i) + (sum n (fun j => Rabs (begun A j))
      + sum n (fun j => Rabs (finish c jobs (planned jobs A) j))))) as (T & TT & Tick).
    assert (Late : forall f j, (j < n)%nat -> f j <= sum n (fun j => Rabs (f j)) /\ 0 <= sum n (fun j => Rabs (f j))).
    { intros f j Hj. pose proof (sum_term n (fun j => Rabs (f j)) j ltac:(intros; apply Rabs_pos) Hj).
      pose proof (Rle_abs (f j)). pose proof (Rabs_pos (f j)). cbn in *. lra. }
    apply (first_tick tick (fun u => head n C A i u /\ fits c n jobs C A i u) (C i) T Clock Tick).
    - split.
      + split.
        * pose proof (Rle_abs (C i)). destruct (Late (begun A) i Hi), (Late (finish c jobs (planned jobs A)) i Hi). lra.
        * intros j Hj _. pose proof (Rabs_pos (C i)). destruct (Late (begun A) j Hj),
            (Late (finish c jobs (planned jobs A)) j Hj). lra.
      + unfold fits, held. rewrite nsum_zero; [specialize (Fits i Hi); lia|]. intros j Hj.
        replace (runs_at _ _ T) with false; [now rewrite andb_false_r|]. symmetry. apply not_true_is_false.
        rewrite runs_at_spec.
        pose proof (Rabs_pos (C i)). destruct (Late (begun A) j Hj), (Late (finish c jobs (planned jobs A)) j Hj). lra.
    - intros u ((H & _) & _). exact H.
    - intros u N. destruct (steady A i u) as (e & E & Same), (before_next n (begun A) u) as (d & D & Begun).
      destruct (before_next 1 (fun _ => C i) u) as (a & Ea & Ci).
      exists (Rmin (Rmin e d) a). split; [repeat apply Rmin_glb_lt; assumption|]. intros v V ((Cv & Hv) & Fv).
      assert (v < u + e /\ v < u + d /\ v < u + a) as (V1 & V2 & V3)
        by (unfold Rmin in V; repeat destruct Rle_dec; lra).
      apply N. split; [split|].
      + apply Rnot_lt_le. intros L. specialize (Ci 0%nat ltac:(lia) L). lra.
      + intros j Hj B. specialize (Hv j Hj B). apply Rnot_lt_le. intros L. specialize (Begun j Hj L). lra.
      + unfold fits in *. destruct (Same v ltac:(lra)) as (Held & _). now rewrite <- Held. }
  destruct Popped as (p & Hp). exists p.
  assert (Begun : exists b, if delayed c n jobs mapping select comm_heavy C A i p
    then first (fun u => tick u /\ waited c n jobs mapping select tau C A i p u) b else b = p).
  { destruct delayed; [|now exists p].
    set (last := p + tau * virtual_seconds c jobs mapping (fun i => predicted (jobs i)) i).
    destruct (proj2 Clock (Rmax p last)) as (T & TT & Tick). pose proof (Rmax_l p last). pose proof (Rmax_r p last).
    apply (first_tick tick _ p T Clock Tick).
    - split; [lra|]. right. fold last. lra.
    - now intros u (H1 & _).
    - intros u N. destruct (steady A i u) as (e & E & Same), (before_next 1 (fun _ => p) u) as (d & D & Up).
      destruct (before_next 1 (fun _ => last) u) as (a & Ea & Ul).
      exists (Rmin (Rmin e d) a). split; [repeat apply Rmin_glb_lt; assumption|]. intros v V (Pv & Why).
      assert (v < u + e /\ v < u + d /\ v < u + a) as (V1 & V2 & V3)
        by (unfold Rmin in V; repeat destruct Rle_dec; lra).
      apply N. destruct (Same v ltac:(lra)) as (_ & _ & Off). split.
      + apply Rnot_lt_le. intros L. specialize (Up 0%nat ltac:(lia) L). lra.
      + rewrite Off in Why. destruct Why as [Why|Why]; [now left|right]. fold last in Why |- *.
        apply Rnot_lt_le. intros L. specialize (Ul 0%nat ltac:(lia) L). lra. }
  destruct Begun as (b & Hb). exists b. eexists. split; [exact Hp|split; [exact Hb|reflexivity]].
Qed.

(* A decision depends only on the jobs before. *)
Lemma decision_same A A' i p b w :
  (forall j, (j < n)%nat -> before C j i = true -> begun A' j = begun A j /\ site A' j = site A j) ->
  decides A i p b w -> decides A' i p b w.
Proof.
  intros Same (P & B & W).
  assert (Held : forall u f, held c n jobs C A' i u f = held c n jobs C A i u f).
  { intros u f. apply nsum_ext. intros j Hj. destruct (before C j i) eqn:E; [|reflexivity].
    destruct (Same j Hj E) as (Bj & Sj).
    unfold finish, planned. cbn [start placed]. now rewrite Bj, Sj. }
  assert (Free : forall u, free c n jobs C A' i u = free c n jobs C A i u).
  { intros u. apply functional_extensionality. intros m. unfold free. rewrite <- Held.
    unfold held. f_equal. apply nsum_ext. intros j Hj. destruct (before C j i) eqn:E; [|reflexivity].
    destruct (Same j Hj E) as (_ & Sj). unfold planned. cbn [placed]. now rewrite Sj. }
  assert (Offer : forall most u, offer c n jobs mapping select C A' most i u = offer c n jobs mapping select C A most i
    u)
    by (intros; unfold offer; now rewrite Free).
  assert (Offered : forall most u, offered c n jobs mapping select C A' most i u = offered c n jobs mapping select C A
    most i u)
    by (intros; unfold offered; now rewrite Offer).
  split; [|split].
  - revert P. apply first_iff. intros u. unfold head, fits. rewrite Held.
    assert (E : forall j, (j < n)%nat -> before C j i = true -> begun A' j = begun A j) by (intros; now apply Same).
    split; intros (T & (H1 & H2) & H3); (split; [exact T|split; [split; [exact H1|]|exact H3]]); intros j Hj Bj;
      specialize (H2 j Hj Bj);
      [rewrite E by assumption|rewrite E in H2 by assumption]; assumption.
  - unfold delayed in *. rewrite Offered. destruct (andb _ _); [|exact B]. revert B. apply first_iff. intros u.
    unfold waited. now rewrite !Offered.
  - now rewrite Offer.
Qed.

Lemma run_exists : exists A, asrpt c n jobs mapping select tau comm_heavy tick C A.
Proof.
  assert (H : forall k, exists A, forall i, (i < n)%nat -> (rank n C i < k)%nat ->
    decides A i (popped A i) (begun A i) (site A i)).
  { induction k as [|k (A & IH)]; [exists (Run (fun _ => 0) (fun _ => 0) (fun _ _ _ => O)); intros; lia|].
    destruct (classic (exists i, (i < n)%nat /\ rank n C i = k)) as [(i & Hi & Ri)|N].
    2: { exists A. intros i Hi L. apply IH; [exact Hi|]. enough (rank n C i <> k) by lia. intros E. apply N.
    now exists i. }
    destruct (decision A i Hi) as (p & b & w & D).
    set (at_i := fun T (f : nat -> T) (v : T) j => if Nat.eqb j i then v else f j).
    set (A' := Run (at_i _ (popped A) p) (at_i _ (begun A) b) (at_i _ (site A) w)).
    assert (Other : forall j, j <> i -> popped A' j = popped A j /\ begun A' j = begun A j /\ site A' j = site A j).
    { intros j N. cbn. unfold at_i. apply Nat.eqb_neq in N. now rewrite N. }
    exists A'. intros j Hj L. assert (Earlier : forall l, (l < n)%nat -> before C l j = true -> l <> i).
    { intros l Hl B ->. pose proof (rank_before n C i j Hi B). lia. }
    apply decision_same with A; [intros l Hl B; apply Other; now apply Earlier|].
    destruct (Nat.eq_dec j i) as [->|N].
    - cbn. unfold at_i. rewrite Nat.eqb_refl. exact D.
    - destruct (Other j N) as (-> & -> & ->). apply IH; [exact Hj|].
      destruct (before_total C j i) as [|[B|B]]; [contradiction| |].
      + pose proof (rank_before n C j i Hj B). lia.
      + exfalso. apply (Earlier i Hi B). reflexivity. }
  destruct (H (S n)) as (A & HA). exists A. intros i Hi. apply HA; [exact Hi|].
  apply (Nat.le_lt_trans _ n); [|lia]. unfold rank. rewrite <- (nsum_ones n) at 2. apply nsum_le. intros j _.
  destruct before; lia.
Qed.
End Exists.

(* -- instances, for examples -- *)

(* Two jobs on the example's cluster, with Heavy-Edge and the selection in order; job i has i predicted iterations. *)
Definition example_jobs (i : nat) : job := example_job (INR i).
Definition unit_jobs (i : nat) : job :=
  Job 1 (fun _ => 1%nat) (fun _ => 1) (fun _ => 0) (fun _ => 0) (fun _ => 0) 0 2 (INR i).
Definition small_jobs (jobs : nat -> job) : Prop := forall i, (i < 2)%nat ->
  job_ok (jobs i) /\ (gpus (jobs i) <= 3)%nat /\ 0 < inside_seconds example_cluster (jobs i) 0.
Definition example_setting (jobs : nat -> job) (least : nat -> R) : Prop :=
  setting example_cluster (heavy_edge example_cluster) (in_order example_cluster) 2 jobs least.

Lemma example_jobs_small : small_jobs example_jobs.
Proof.
  intros i _. split; [apply example_job_ok, pos_INR|split; [cbn; lia|]]. unfold inside_seconds. cbn. lra.
Qed.
Lemma unit_jobs_small : small_jobs unit_jobs.
Proof.
  intros i _. split; [|split; [cbn; lia|unfold inside_seconds; cbn; lra]].
  unfold job_ok. cbn. pose proof (pos_INR i). split; [lia|split; [|split; [lra|split; [lra|split; [|lra]]]]]; intros;
    split; lia || lra.
Qed.

Lemma example_instance jobs : small_jobs jobs -> exists least C C1, example_setting jobs least /\ positive 2 least /\
  widest 2 jobs < INR (all_gpus example_cluster) /\
  machine_predicted example_cluster 2 jobs (heavy_edge example_cluster) C /\
  machine_true example_cluster 2 jobs (heavy_edge example_cluster) C1.
Proof.
  intros Small. destruct (finite_choice 0 2 (fun i a => shortest_iteration example_cluster (jobs i) a))
    as (least & Short).
  { intros i Hi. destruct (Small i Hi) as (HJ & Fits & _). apply shortest_of; [exact HJ|cbn; lia]. }
  assert (R0 : forall p, exists C, srpt_completions 2 (arrivals jobs) p C).
  { intros p. apply srpt_exists. intros i Hi. unfold arrivals. apply (proj1 (Small i Hi)). }
  destruct (R0 (virtual_seconds example_cluster jobs (heavy_edge example_cluster) (fun i => predicted (jobs i))))
    as (C & HC).
  destruct (R0 (virtual_seconds example_cluster jobs (heavy_edge example_cluster) (fun i => iterations (jobs i))))
    as (C1 & HC1).
  exists least, C, C1. split; [|split; [|split; [|now split]]].
  - split; [exact example_cluster_ok|split; [apply heavy_edge_maps|split; [apply in_order_selects|]]]. intros i Hi.
    destruct (Small i Hi) as (HJ & Fits & _). split; [exact HJ|split; [cbn; lia|now apply Short]].
  - intros i Hi. destruct (Small i Hi) as (HJ & _ & Pos). apply (shortest_positive example_cluster (jobs i));
    auto using example_cluster_ok. apply example_fast.
  - apply Rle_lt_trans with 3; [|cbn; lra]. apply largest_le; [lra|]. intros i Hi.
    replace 3 with (INR 3) by (cbn; lra). apply le_INR, Small, Hi.
Qed.

Lemma example_longest jobs : small_jobs jobs ->
  exists most, forall i, (i < 2)%nat -> longest_iteration example_cluster (jobs i) (most i).
Proof.
  intros Small. apply (finite_choice 0 2 (fun i a => longest_iteration example_cluster (jobs i) a)). intros i Hi.
  destruct (Small i Hi) as (HJ & Fits & _), (shortest_of example_cluster (jobs i) HJ) as (a & (x & P & _) & _);
    [cbn; lia|].
  apply longest_exists; [exact HJ|now exists x].
Qed.

Lemma example_run jobs tau tick C : small_jobs jobs -> clock tick -> exists A,
  asrpt example_cluster 2 jobs (heavy_edge example_cluster) (in_order example_cluster) tau (3 / 2) tick C A.
Proof.
  intros Small Tick. apply run_exists; [exact Tick|]. intros i Hi. destruct (Small i Hi) as (_ & Fits & _). cbn. lia.
Qed.

(* All that a theorem about schedules can ask for; other is the schedule of A-SRPT itself. *)
Lemma example_case jobs tau tick : small_jobs jobs -> clock tick -> exists least most C C1 A,
  example_setting jobs least /\ positive 2 least /\
  (forall i, (i < 2)%nat -> longest_iteration example_cluster (jobs i) (most i)) /\
  widest 2 jobs < INR (all_gpus example_cluster) /\
  machine_predicted example_cluster 2 jobs (heavy_edge example_cluster) C /\
  machine_true example_cluster 2 jobs (heavy_edge example_cluster) C1 /\
  asrpt example_cluster 2 jobs (heavy_edge example_cluster) (in_order example_cluster) tau (3 / 2) tick C A /\
  cluster_schedule example_cluster 2 jobs (planned jobs A).
Proof.
  intros Small Tick. destruct (example_instance jobs Small) as (least & C & C1 & Given & Pos & Wide & HC & HC1).
  destruct (example_longest jobs Small) as (most & Long), (example_run jobs tau tick C Small Tick) as (A & HA).
  exists least, most, C, C1, A. do 7 (split; [assumption|]).
  apply (run_schedule _ _ _ _ _ least _ _ _ _ _ Given HA).
  intros i Hi. now apply (completed_after_arrival 2 (arrivals jobs) _ C i HC).
Qed.

Ltac take_case jobs tau tick :=
  let Case := fresh in
  assert (Case := example_case jobs tau tick ltac:(auto using example_jobs_small, unit_jobs_small)
    ltac:(auto using clock_always, clock_slots));
  destruct Case as (least & most & C & C1 & A & Given & Pos & Long & Wide & HC & HC1 & HA & Schedule).
(* The hypotheses of a theorem can be met by such a case, and job 1. *)
Ltac met_by_case jobs tau tick :=
  let H := fresh in
  intros H; take_case jobs tau tick; unfold example_setting in *; pose proof (proj2 example_fast) as Fast;
  lazymatch goal with G : setting _ _ _ _ _ _ |- _ => pose proof (setting_components _ _ _ _ _ _ G) end;
  assert (Tau : 0 <= tau) by lra; pose proof Nat.lt_1_2 as Job; eapply H; try eassumption; intros; cbn; lra.

(* -- the claims about schedules -- *)

(* Theorem 1's multiple of OPT_A; spare is G - g^max. *)
Definition multiple (tau ratio G spare wide longest shortest mean_error : R) : R :=
  (2 + tau + ratio * G / spare) * ratio
  + 2 * ratio * wide * longest / shortest * (1 + tau + (1 + ratio) * G / spare) * mean_error.

Section Instances.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) (least : nat -> R).
Hypothesis Given : setting c mapping select n jobs least.

Lemma virtual_nonneg count i : (i < n)%nat -> 0 <= count i -> 0 <= virtual_seconds c jobs mapping count i.
Proof.
  intros Hi Ci. destruct Given as (_ & _ & _ & Jobs). destruct (Jobs i Hi) as (HJ & Fits & _).
  pose proof (gpus_positive _ HJ). unfold virtual_seconds. apply Rmult_le_pos;
    [apply Rmult_le_pos; [|exact Ci]|apply largest_nonneg].
  apply div_nonneg; [apply pos_INR|apply INR_positive; lia].
Qed.

Lemma predicted_nonneg i : (i < n)%nat -> 0 <= virtual_seconds c jobs mapping (fun i => predicted (jobs i)) i.
Proof. intros Hi. apply virtual_nonneg; [exact Hi|]. destruct Given as (_ & _ & _ & Jobs). now apply Jobs. Qed.

Lemma arrivals_nonneg i : (i < n)%nat -> 0 <= arrivals jobs i.
Proof. intros Hi. destruct Given as (_ & _ & _ & Jobs). now apply Jobs. Qed.

Lemma delay_bound tau comm_heavy tick C A i : asrpt c n jobs mapping select tau comm_heavy tick C A -> (i < n)%nat ->
  0 <= tau ->
  (forall u, tick u) \/ tau = 0 ->
  begun A i - popped A i <= tau * virtual_seconds c jobs mapping (fun i => predicted (jobs i)) i.
Proof.
  intros HA Hi Tau Any. pose proof (predicted_nonneg i Hi) as P. pose proof (Rmult_le_pos _ _ Tau P) as D.
  destruct (HA i Hi) as (((Tick & _) & _) & B & _). destruct delayed; [|lra]. destruct B as (_ & Least).
  assert (begun A i <= popped A i + tau * virtual_seconds c jobs mapping (fun i => predicted (jobs i)) i); [|lra].
  apply Least. split; [|split; [lra|right; lra]]. destruct Any as [Any| ->]; [apply Any|].
  now rewrite Rmult_0_l, Rplus_0_r.
Qed.

Lemma machine_work C i : machine_predicted c n jobs mapping C -> (i < n)%nat ->
  sum n (fun j => if Rle_dec (C j) (C i) then virtual_seconds c jobs mapping (fun i => predicted (jobs i)) j else 0) <=
    C i.
Proof.
  intros HC Hi. apply (completed_work n (arrivals jobs)); [|exact HC|].
  - intros j Hj. split; [now apply arrivals_nonneg|now apply predicted_nonneg].
  - pose proof (completed_after_arrival n (arrivals jobs) _ C i HC Hi). pose proof (arrivals_nonneg i Hi). lra.
Qed.

Lemma spare_positive : 0 < INR (all_gpus c) - widest n jobs + 1.
Proof.
  destruct Given as (_ & _ & _ & Jobs). assert (widest n jobs <= INR (all_gpus c)); [|lra].
  apply largest_le; [apply pos_INR|]. intros i Hi. apply le_INR. now apply Jobs.
Qed.

Lemma printed_longest : fast_inside c -> bounded_by c n jobs least (fun i => alpha_max c (jobs i)).
Proof.
  intros Fast i Hi. destruct Given as (Hc & _ & _ & Jobs), (Jobs i Hi) as (HJ & _ & ((y & Py & Ay) & _)). split.
  - intros x P. now apply alpha_max_fast_inside.
  - intros Z. apply (no_work c _ _ y); auto. now rewrite Ay.
Qed.

Lemma true_longest most : (forall i, (i < n)%nat -> longest_iteration c (jobs i) (most i)) ->
  bounded_by c n jobs least most.
Proof.
  intros Long i Hi. destruct Given as (Hc & _ & _ & Jobs), (Jobs i Hi) as (HJ & _ & ((y & Py & Ay) & _)).
  destruct (Long i Hi) as ((x & Px & Ax) & Most). split; [exact Most|]. intros Z. rewrite <- Ax.
  apply (no_work c _ _ y); auto. now rewrite Ay.
Qed.
End Instances.

Lemma example_larger least : example_setting example_jobs least -> positive 2 least ->
  let size := virtual_seconds example_cluster example_jobs (heavy_edge example_cluster)
    (fun i => predicted (example_jobs i)) in
  size 0%nat < size 1%nat.
Proof.
  intros (_ & _ & _ & Jobs) Positive size. destruct (Jobs 1%nat ltac:(lia)) as (_ & Fits & (_ & Least)).
  pose proof (Positive 1%nat ltac:(lia)) as Pos.
  specialize (Least _ (tilde_placement _ _ _ (heavy_edge_maps _) Fits)).
  fold (alpha_tilde example_cluster (heavy_edge example_cluster) (example_jobs 1)) in Least.
  unfold size, virtual_seconds.
  set (a := alpha_tilde _ _ (example_jobs 1)) in *. cbn [predicted example_jobs example_job INR].
  rewrite Rmult_0_r, Rmult_0_l, Rmult_1_r. apply Rmult_lt_0_compat; [|lra]. cbn. lra.
Qed.

(* Claim asrpt/pending-order: jobs start in the order in which they complete on the virtual machine. *)
Theorem pending_order c mapping select n jobs tau comm_heavy tick C A i j :
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy tick C A ->
  (i < n)%nat -> (j < n)%nat -> C i < C j -> begun A i <= begun A j.
Proof.
  intros _ HA Hi Hj L. pose proof (popped_begun c mapping select n jobs tau comm_heavy tick C A HA j Hj).
  pose proof (in_queue_order c mapping select n jobs tau comm_heavy tick C A HA j i Hj Hi ltac:(apply before_spec;
    lra)). lra.
Qed.

Example pending_order_met : can_be_met pending_order.
Proof.
  intros H. take_case example_jobs (1 / 2) always.
  apply (H _ _ _ 2%nat example_jobs _ _ _ C A 0%nat 1%nat HC HA); try lia.
  apply (together_in_order 2 (arrivals example_jobs) _ C 0 0 1) with (2 := HC); auto;
    [|now apply (example_larger least)].
  intros i Hi. now apply (predicted_nonneg _ _ _ _ _ _ Given).
Qed.

(* Claim asrpt/larger-later-together: if all jobs arrive at the same time, those with larger predicted workloads start
   no earlier than those with smaller ones. *)
Theorem larger_later_together c mapping select n jobs tau comm_heavy tick C A s i j :
  components c mapping select n jobs -> (forall k, (k < n)%nat -> arrival (jobs k) = s) ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy tick C A ->
  (i < n)%nat -> (j < n)%nat ->
  virtual_seconds c jobs mapping (fun k => predicted (jobs k)) i
    < virtual_seconds c jobs mapping (fun k => predicted (jobs k)) j ->
  begun A i <= begun A j.
Proof.
  intros Parts Together HC HA Hi Hj L. destruct (setting_exists c mapping select n jobs Parts) as (least & Given).
  apply (pending_order c mapping select n jobs tau comm_heavy tick C A i j HC HA Hi Hj).
  apply (together_in_order n (arrivals jobs) _ C s i j) with (2 := HC); auto; [|now apply Together|now apply Together].
  intros k Hk. now apply (predicted_nonneg c mapping select n jobs least Given).
Qed.

Example larger_later_together_met : can_be_met larger_later_together.
Proof.
  intros H. take_case example_jobs (1 / 2) always.
  exact (H _ _ _ 2%nat example_jobs _ _ _ C A 0 0%nat 1%nat (setting_components _ _ _ _ _ _ Given)
    ltac:(reflexivity) HC HA Nat.lt_0_2 Nat.lt_1_2 (example_larger least Given Pos)).
Qed.

(* Claim asrpt/eq-3-half-open: A-SRPT's schedule satisfies eqs. (1) and (2), and eq. (3) with
   t_i <= t < t_i + n_i alpha_i. *)
Theorem eq_3_half_open c mapping select n jobs tau comm_heavy tick C A : components c mapping select n jobs ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy tick C A ->
  cluster_schedule c n jobs (planned jobs A).
Proof.
  intros Parts HC HA. destruct (setting_exists c mapping select n jobs Parts) as (least & Given).
  apply (run_schedule c mapping select n jobs least tau comm_heavy tick C A Given HA).
  intros i Hi. now apply (completed_after_arrival n (arrivals jobs) _ C i HC).
Qed.

Example eq_3_half_open_met : can_be_met eq_3_half_open.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-1-continuous: OPT_A1 <= rho OPT_A if B_intra >= B_inter / g. other is any schedule of A. *)
Theorem lemma_1_continuous c mapping select n jobs least C other :
  setting c mapping select n jobs least -> positive n least -> fast_inside c ->
  machine_true c n jobs mapping C -> cluster_schedule c n jobs other ->
  sum n C <= rho n (fun i => alpha_max c (jobs i)) least * total c n jobs other.
Proof.
  intros Given Pos Fast HC HS. unfold total. apply (lemma_1 c mapping select n jobs least _ Given); auto.
  now apply (printed_longest c mapping select n jobs least).
Qed.

Example lemma_1_continuous_met : can_be_met lemma_1_continuous.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-1-any-bandwidth: the same for all bandwidths, with alpha_i^max the longest iteration. *)
Theorem lemma_1_any_bandwidth c mapping select n jobs least most C other : setting c mapping select n jobs least ->
  positive n least -> (forall i, (i < n)%nat -> longest_iteration c (jobs i) (most i)) ->
  machine_true c n jobs mapping C -> cluster_schedule c n jobs other ->
  sum n C <= rho n most least * total c n jobs other.
Proof.
  intros Given Pos Long HC HS. unfold total. apply (lemma_1 c mapping select n jobs least _ Given); auto.
  now apply (true_longest c mapping select n jobs least).
Qed.

Example lemma_1_any_bandwidth_met : can_be_met lemma_1_any_bandwidth.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-3-exact: OPT_A~1 <= OPT_A1 + I (overestimates) - (underestimates), for all bandwidths. *)
Theorem lemma_3_exact c mapping select n jobs C' C : components c mapping select n jobs ->
  machine_predicted c n jobs mapping C' -> machine_true c n jobs mapping C ->
  let part i := INR (gpus (jobs i)) / INR (all_gpus c) * error (jobs i) * alpha_tilde c mapping (jobs i) in
  sum n C' <= sum n C
    + INR n * sum n (fun i => if Rlt_dec (iterations (jobs i)) (predicted (jobs i)) then part i else 0)
    - sum n (fun i => if Rlt_dec (predicted (jobs i)) (iterations (jobs i)) then part i else 0).
Proof.
  intros Parts H' H. destruct (setting_exists c mapping select n jobs Parts) as (least & Given).
  pose proof Given as (_ & _ & _ & Jobs).
  destruct (finite_choice 0 n (fun i a => longest_iteration c (jobs i) a)) as (most & M).
  { intros i Hi. destruct (Jobs i Hi) as (HJ & _ & ((x & P & _) & _)).
    apply longest_exists; [exact HJ|now exists x]. }
  apply (lemma_3 c mapping select n jobs least most Given); auto.
  now apply (true_longest c mapping select n jobs least).
Qed.

Example lemma_3_exact_met : can_be_met lemma_3_exact.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-3-continuous: OPT_A~1 <= OPT_A1 + I g^max alpha^max / G epsilon if B_intra >= B_inter / g. *)
Theorem lemma_3_continuous c mapping select n jobs C' C :
  components c mapping select n jobs -> fast_inside c ->
  machine_predicted c n jobs mapping C' -> machine_true c n jobs mapping C ->
  sum n C' <= sum n C
    + INR n * (widest n jobs * largest n (fun i => alpha_max c (jobs i)) / INR (all_gpus c)) * total_error n jobs.
Proof.
  intros Parts Fast H' H. destruct (setting_exists c mapping select n jobs Parts) as (least & Given).
  apply (lemma_3_printed c mapping select n jobs least _ Given); auto.
  now apply (printed_longest c mapping select n jobs least).
Qed.

Example lemma_3_continuous_met : can_be_met lemma_3_continuous.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

Section EqTwelve.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) (least most : nat -> R).
Variables (tau comm_heavy spare : R) (C : nat -> R) (A : run).
Hypothesis Given : setting c mapping select n jobs least.
Hypothesis Longest : bounded_by c n jobs least most.
Hypothesis Spare : 0 < spare <= INR (all_gpus c) - widest n jobs + 1.
Hypothesis Tau : 0 <= tau.
Hypothesis Machine : machine_predicted c n jobs mapping C.
Hypothesis Algorithm : asrpt c n jobs mapping select tau comm_heavy always C A.

Lemma eq_12_for i : (i < n)%nat -> finish c jobs (planned jobs A) i <=
  (1 + tau + rho n most least * INR (all_gpus c) / spare) * C i +
    widest n jobs * largest n most / spare * total_error n jobs
  + iterations (jobs i) * most i.
Proof.
  intros Hi. pose proof (completion_bound c mapping select n jobs least most Given Longest tau comm_heavy always C A
    spare Algorithm
    Spare Tau (fun i => machine_work c mapping select n jobs least Given C i Machine)
    (fun j Hj => delay_bound c mapping select n jobs least Given tau comm_heavy always C A j Algorithm Hj Tau
      (or_introl (fun _ => I)))
    i (C i) Hi) as B.
  assert (Seen : forall u, C i <= u < begun A i -> exists v, C i <= v /\ v <= u /\ always v /\
    forall j, (j < n)%nat -> before C j i = true -> (begun A j <= u -> begun A j <= v) /\
      (begun A j <= v -> v < finish c jobs (planned jobs A) j -> u < finish c jobs (planned jobs A) j)).
  { intros u U. exists u. repeat split; auto; lra. }
  specialize (B Seen). lra.
Qed.

Lemma lemma_2_for other : cluster_schedule c n jobs other -> sum n (finish c jobs (planned jobs A)) <=
  (1 + tau + rho n most least * INR (all_gpus c) / spare) * sum n C
  + INR n * (widest n jobs * largest n most / spare) * total_error n jobs
  + rho n most least * sum n (finish c jobs other).
Proof.
  intros HS. pose proof (lemma_2 c mapping select n jobs least most Given Longest tau C A spare 0 other HS) as B.
  rewrite Rmult_0_r, Rplus_0_r in B. apply B. intros i Hi. pose proof (eq_12_for i Hi). lra.
Qed.

Lemma theorem_1_for other : positive n least -> (forall i, (i < n)%nat -> 1 <= iterations (jobs i)) ->
  cluster_schedule c n jobs other ->
  sum n (finish c jobs (planned jobs A)) <=
  multiple tau (rho n most least) (INR (all_gpus c)) spare (widest n jobs) (largest n most) (smallest n least)
    (total_error n jobs / INR n) * sum n (finish c jobs other).
Proof.
  intros Pos Long HS. unfold multiple.
  pose proof (theorem_1 c mapping select n jobs least most Given Longest tau C spare other
    (sum n (finish c jobs (planned jobs A))) 0 Pos Tau (proj1 Spare) Long Machine HS) as B.
  rewrite !Rplus_0_r in B. apply B. now apply lemma_2_for.
Qed.
End EqTwelve.

(* Claim asrpt/eq-12: with B_intra >= B_inter / g and G > g^max job i completes by
   (1 + tau + rho G / (G - g^max)) C_i + g^max alpha^max / (G - g^max) epsilon + n_i alpha_i^max. *)
Theorem eq_12 c mapping select n jobs least tau comm_heavy C A i :
  setting c mapping select n jobs least -> fast_inside c ->
  widest n jobs < INR (all_gpus c) -> 0 <= tau -> machine_predicted c n jobs mapping C ->
  asrpt c n jobs mapping select tau comm_heavy always C A -> (i < n)%nat ->
  let most := fun i => alpha_max c (jobs i) in let spare := INR (all_gpus c) - widest n jobs in
  finish c jobs (planned jobs A) i <= (1 + tau + rho n most least * INR (all_gpus c) / spare) * C i
    + widest n jobs * largest n most / spare * total_error n jobs + iterations (jobs i) * most i.
Proof.
  intros Given Fast Wide Tau HC HA Hi most spare.
  apply (eq_12_for c mapping select n jobs least most tau comm_heavy spare C A); auto.
  - now apply (printed_longest c mapping select n jobs least).
  - unfold spare. lra.
Qed.

Example eq_12_met : can_be_met eq_12.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/eq-12-sharper: for all bandwidths and G, with G - g^max + 1 and alpha_i^max the longest iteration. *)
Theorem eq_12_sharper c mapping select n jobs least most tau comm_heavy C A i :
  setting c mapping select n jobs least ->
  (forall i, (i < n)%nat -> longest_iteration c (jobs i) (most i)) -> 0 <= tau ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy always C A -> (i < n)%nat ->
  let spare := INR (all_gpus c) - widest n jobs + 1 in
  finish c jobs (planned jobs A) i <= (1 + tau + rho n most least * INR (all_gpus c) / spare) * C i
    + widest n jobs * largest n most / spare * total_error n jobs + iterations (jobs i) * most i.
Proof.
  intros Given Long Tau HC HA Hi spare. apply (eq_12_for c mapping select n jobs least most tau comm_heavy spare C A);
    auto.
  - now apply (true_longest c mapping select n jobs least).
  - split; [|apply Rle_refl]. now apply (spare_positive c mapping select n jobs least).
Qed.

Example eq_12_sharper_met : can_be_met eq_12_sharper.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-2-continuous: with B_intra >= B_inter / g and G > g^max, Gamma_A is at most
   (1 + tau + rho G / (G - g^max)) OPT_A~1 + I g^max alpha^max / (G - g^max) epsilon + rho OPT_A, where OPT_A stands
   for the sum of any schedule of A (other). *)
Theorem lemma_2_continuous c mapping select n jobs least tau comm_heavy C A other :
  setting c mapping select n jobs least -> fast_inside c ->
  widest n jobs < INR (all_gpus c) -> 0 <= tau -> machine_predicted c n jobs mapping C ->
  asrpt c n jobs mapping select tau comm_heavy always C A -> cluster_schedule c n jobs other ->
  let most := fun i => alpha_max c (jobs i) in let spare := INR (all_gpus c) - widest n jobs in
  total c n jobs (planned jobs A) <= (1 + tau + rho n most least * INR (all_gpus c) / spare) * sum n C
    + INR n * (widest n jobs * largest n most / spare) * total_error n jobs
    + rho n most least * total c n jobs other.
Proof.
  intros Given Fast Wide Tau HC HA HS most spare. unfold total.
  apply (lemma_2_for c mapping select n jobs least most tau comm_heavy spare C A); auto.
  - now apply (printed_longest c mapping select n jobs least).
  - unfold spare. lra.
Qed.

Example lemma_2_continuous_met : can_be_met lemma_2_continuous.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/lemma-2-sharper: for all bandwidths and G, with G - g^max + 1 and alpha_i^max the longest iteration. *)
Theorem lemma_2_sharper c mapping select n jobs least most tau comm_heavy C A other :
  setting c mapping select n jobs least ->
  (forall i, (i < n)%nat -> longest_iteration c (jobs i) (most i)) -> 0 <= tau ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy always C A ->
  cluster_schedule c n jobs other ->
  let spare := INR (all_gpus c) - widest n jobs + 1 in
  total c n jobs (planned jobs A) <= (1 + tau + rho n most least * INR (all_gpus c) / spare) * sum n C
    + INR n * (widest n jobs * largest n most / spare) * total_error n jobs
    + rho n most least * total c n jobs other.
Proof.
  intros Given Long Tau HC HA HS spare. unfold total.
  apply (lemma_2_for c mapping select n jobs least most tau comm_heavy spare C A); auto.
  - now apply (true_longest c mapping select n jobs least).
  - split; [|apply Rle_refl]. now apply (spare_positive c mapping select n jobs least).
Qed.

Example lemma_2_sharper_met : can_be_met lemma_2_sharper.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/thm-1-continuous: with B_intra >= B_inter / g, G > g^max and n_i >= 1, Gamma_A is at most Theorem 1's
   multiple of OPT_A. other is any schedule of A. *)
Theorem thm_1_continuous c mapping select n jobs least tau comm_heavy C A other :
  setting c mapping select n jobs least -> positive n least -> fast_inside c ->
  widest n jobs < INR (all_gpus c) -> (forall i, (i < n)%nat -> 1 <= iterations (jobs i)) -> 0 <= tau ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy always C A ->
  cluster_schedule c n jobs other ->
  let most := fun i => alpha_max c (jobs i) in
  total c n jobs (planned jobs A) <=
  multiple tau (rho n most least) (INR (all_gpus c)) (INR (all_gpus c) - widest n jobs) (widest n jobs) (largest n most)
    (smallest n least) (total_error n jobs / INR n) * total c n jobs other.
Proof.
  intros Given Pos Fast Wide Long Tau HC HA HS most. unfold total.
  apply (theorem_1_for c mapping select n jobs least most tau comm_heavy _ C A); auto; [|lra].
  now apply (printed_longest c mapping select n jobs least).
Qed.

Example thm_1_continuous_met : can_be_met thm_1_continuous.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* Claim asrpt/thm-1-sharper: for all bandwidths and G, with G - g^max + 1 and alpha_i^max the longest iteration. *)
Theorem thm_1_sharper c mapping select n jobs least most tau comm_heavy C A other :
  setting c mapping select n jobs least -> positive n least ->
  (forall i, (i < n)%nat -> longest_iteration c (jobs i) (most i)) ->
  (forall i, (i < n)%nat -> 1 <= iterations (jobs i)) -> 0 <= tau ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select tau comm_heavy always C A ->
  cluster_schedule c n jobs other ->
  total c n jobs (planned jobs A) <=
  multiple tau (rho n most least) (INR (all_gpus c)) (INR (all_gpus c) - widest n jobs + 1) (widest n jobs)
    (largest n most) (smallest n least) (total_error n jobs / INR n) * total c n jobs other.
Proof.
  intros Given Pos Longest Long Tau HC HA HS. unfold total.
  apply (theorem_1_for c mapping select n jobs least most tau comm_heavy _ C A); auto.
  - now apply (true_longest c mapping select n jobs least).
  - split; [|apply Rle_refl]. now apply (spare_positive c mapping select n jobs least).
Qed.

Example thm_1_sharper_met : can_be_met thm_1_sharper.
Proof. met_by_case example_jobs (1 / 2) always. Qed.

(* -- slots of one second -- *)

(* Jobs take whole slots on all placements. *)
Definition whole_slots (c : cluster) (n : nat) (jobs : nat -> job) : Prop :=
  forall i x, (i < n)%nat -> placement c (jobs i) x -> exists k : nat, iterations (jobs i) * alpha c (jobs i) x = INR k.

Lemma unit_jobs_whole : whole_slots example_cluster 2 unit_jobs.
Proof.
  intros i x Hi P. exists 2%nat. enough (alpha example_cluster (unit_jobs i) x = 1) as -> by (cbn; lra).
  destruct (has_server _ _ x 0 (proj1 (unit_jobs_small i Hi)) P ltac:(cbn; lia)) as (m & Hm & X).
  assert (B : forall m, beta example_cluster (unit_jobs i) x 0 m = if Nat.eqb (x 0%nat m) 0 then 0 else 1).
  { intros q. unfold beta, comm, all_reduce. destruct (Nat.eqb (x 0%nat q) 0); [reflexivity|].
    cbn -[Nat.ltb INR]. destruct Nat.ltb; cbn [INR]; unfold Rdiv; ring. }
  unfold alpha. cbn [stages unit_jobs largest]. rewrite Rmax_right by apply largest_nonneg.
  assert (Bm : beta example_cluster (unit_jobs i) x 0 m = 1)
    by (rewrite B; destruct (Nat.eqb_spec (x 0%nat m) 0); [lia|reflexivity]).
  rewrite <- Bm. apply largest_at; [exact Hm|lra|]. intros q _. rewrite Bm, B. destruct Nat.eqb; lra.
Qed.

Section SlotBounds.
Variables (c : cluster) (mapping : mapper) (select : selector) (n : nat) (jobs : nat -> job) (least : nat -> R).
Variables (comm_heavy : R) (C : nat -> R) (A : run) (d : R).
Let most (i : nat) : R := alpha_max c (jobs i).
Let spare : R := INR (all_gpus c) - widest n jobs.
Hypothesis Given : setting c mapping select n jobs least.
Hypothesis Fast : fast_inside c.
Hypothesis Wide : widest n jobs < INR (all_gpus c).
Hypothesis Whole : whole_slots c n jobs.
Hypothesis Algorithm : asrpt c n jobs mapping select 0 comm_heavy slot_times C A.
Hypothesis Machine : forall i, (i < n)%nat ->
  sum n (fun j => if Rle_dec (C j) (C i) then virtual_seconds c jobs mapping (fun i => predicted (jobs i)) j else 0) <=
    C i.
(* Job i is in the queue in a slot that begins no more than d seconds after C_i. *)
Hypothesis Queued : forall i, (i < n)%nat -> exists k : nat, C i <= INR k <= C i + d.

Lemma lemma_2_slots other : cluster_schedule c n jobs other -> sum n (finish c jobs (planned jobs A)) <=
  (1 + rho n most least * INR (all_gpus c) / spare) * sum n C
  + INR n * (widest n jobs * largest n most / spare) * total_error n jobs
  + rho n most least * sum n (finish c jobs other) + INR n * d.
Proof.
  intros HS. pose proof (printed_longest c mapping select n jobs least Given Fast) as Longest.
  pose proof (lemma_2 c mapping select n jobs least most Given Longest 0 C A spare d other HS) as B.
  rewrite Rplus_0_r in B. apply B. clear B. intros i Hi. destruct (Queued i Hi) as (k & K1 & K2).
  assert (Spare : 0 < spare <= INR (all_gpus c) - widest n jobs + 1) by (unfold spare; lra).
  pose proof (completion_bound c mapping select n jobs least most Given Longest 0 comm_heavy slot_times C A spare
    Algorithm Spare
    (Rle_refl 0) Machine
    (fun j Hj => delay_bound c mapping select n jobs least Given 0 comm_heavy slot_times C A j Algorithm Hj
      (Rle_refl 0) (or_intror eq_refl))
    i (INR k) Hi) as Bound.
  assert (Seen : forall u, INR k <= u < begun A i -> exists v, C i <= v /\ v <= u /\ slot_times v /\
    forall j, (j < n)%nat -> before C j i = true -> (begun A j <= u -> begun A j <= v) /\
      (begun A j <= v -> v < finish c jobs (planned jobs A) j -> u < finish c jobs (planned jobs A) j)).
  { intros u U. destruct (nat_floor u) as (q & Q); [pose proof (pos_INR k); lra|]. rewrite <- S_INR in Q.
    exists (INR q).
    assert (Kq : (k < S q)%nat) by (apply INR_lt; lra). assert (INR k <= INR q) by (apply le_INR; lia).
    split; [lra|split; [lra|split; [now exists q|]]]. intros j Hj _.
    assert (Tick : slot_times (begun A j)).
    { destruct (Algorithm j Hj) as (((T & _) & _) & D & _). destruct delayed;
        [now destruct D as ((T' & _) & _)|now rewrite D]. }
    destruct Tick as (b & Bj). rewrite Bj.
    destruct (Whole j _ Hj (run_placement c mapping select n jobs least 0 comm_heavy slot_times C A Given Algorithm j
      Hj)) as (l & L).
    assert (E : finish c jobs (planned jobs A) j = INR (b + l)).
    { unfold finish, planned. cbn [start placed]. rewrite L, Bj, plus_INR. reflexivity. }
    rewrite E. split.
    - intros F. apply le_INR. assert (b < S q)%nat by (apply INR_lt; lra). lia.
    - intros _ F. apply INR_lt in F. assert (INR (S q) <= INR (b + l)) by (apply le_INR; lia). lra. }
  specialize (Bound Seen). lra.
Qed.
End SlotBounds.

(* Claim asrpt/lemma-2-all-slots: with slots on both machines, tau = 0 and jobs that take whole slots, Lemma 2 holds. *)
Theorem lemma_2_all_slots c mapping select n jobs least comm_heavy C A other :
  setting c mapping select n jobs least -> fast_inside c ->
  widest n jobs < INR (all_gpus c) -> whole_slots c n jobs ->
  slot_completions n (arrivals jobs) (virtual_seconds c jobs mapping (fun i => predicted (jobs i))) C ->
  asrpt c n jobs mapping select 0 comm_heavy slot_times C A -> cluster_schedule c n jobs other ->
  let most := fun i => alpha_max c (jobs i) in let spare := INR (all_gpus c) - widest n jobs in
  total c n jobs (planned jobs A) <= (1 + rho n most least * INR (all_gpus c) / spare) * sum n C
    + INR n * (widest n jobs * largest n most / spare) * total_error n jobs
    + rho n most least * total c n jobs other.
Proof.
  intros Given Fast Wide Whole HC HA HS most spare. unfold total.
  assert (Queued : forall i, (i < n)%nat -> exists k : nat, C i <= INR k <= C i + 0).
  { intros i Hi. destruct HC as (a & _ & HC). destruct (HC i Hi) as (k & -> & _). exists k. lra. }
  pose proof (lemma_2_slots c mapping select n jobs least comm_heavy C A 0 Given Fast Wide Whole HA
    (fun i Hi => slot_completed_work n (arrivals jobs) _ C i HC Hi) Queued other HS) as B.
  rewrite Rmult_0_r, Rplus_0_r in B. exact B.
Qed.

Example lemma_2_all_slots_met : can_be_met lemma_2_all_slots.
Proof.
  intros H. take_case unit_jobs 0 slot_times. destruct (slot_schedules 2 (arrivals unit_jobs)
    (virtual_seconds example_cluster unit_jobs (heavy_edge example_cluster) (fun i => predicted (unit_jobs i))))
    as (C' & HC').
  destruct (example_run unit_jobs 0 slot_times C' unit_jobs_small clock_slots) as (A' & HA').
  exact (H _ _ _ 2%nat unit_jobs _ _ C' A' _ Given (proj2 example_fast) Wide unit_jobs_whole HC' HA' Schedule).
Qed.

(* Claim asrpt/thm-1-starts-in-slots: with the virtual machine in continuous time, jobs that take whole slots and start
   with a slot, and tau = 0, Gamma_A is at most Theorem 1's multiple of OPT_A, plus OPT_A. *)
Theorem thm_1_starts_in_slots c mapping select n jobs least comm_heavy C A other :
  setting c mapping select n jobs least -> positive n least -> fast_inside c ->
  widest n jobs < INR (all_gpus c) -> (forall i, (i < n)%nat -> 1 <= iterations (jobs i)) -> whole_slots c n jobs ->
  machine_predicted c n jobs mapping C -> asrpt c n jobs mapping select 0 comm_heavy slot_times C A ->
  cluster_schedule c n jobs other ->
  let most := fun i => alpha_max c (jobs i) in
  total c n jobs (planned jobs A) <=
  multiple 0 (rho n most least) (INR (all_gpus c)) (INR (all_gpus c) - widest n jobs) (widest n jobs) (largest n most)
    (smallest n least) (total_error n jobs / INR n) * total c n jobs other + total c n jobs other.
Proof.
  intros Given Positive Fast Wide Long Whole HC HA HS most. unfold total. pose proof Given as (_ & _ & _ & Jobs).
  assert (Slots : INR n <= sum n (finish c jobs other)).
  { rewrite <- (Rmult_1_r (INR n)), <- sum_const. apply sum_le. intros i Hi. destruct HS as (Starts & _).
    destruct (Starts i Hi) as (T & P), (Jobs i Hi) as (_ & _ & (_ & Least)), (Whole i _ Hi P) as (k & K).
    specialize (Least _ P). specialize (Long i Hi). specialize (Positive i Hi).
    pose proof (arrivals_nonneg c mapping select n jobs least Given i Hi) as R0.
    unfold arrivals in R0. unfold finish. rewrite K.
    assert (0 < iterations (jobs i) * alpha c (jobs i) (placed other i)) by (apply Rmult_lt_0_compat; lra).
    assert (1 <= INR k); [|lra]. apply (le_INR 1). destruct k; [cbn in K; lra|lia]. }
  eapply Rle_trans.
  - apply (theorem_1 c mapping select n jobs least most Given
      (printed_longest c mapping select n jobs least Given Fast) 0 C
      (INR (all_gpus c) - widest n jobs) other _ (INR n * 1) Positive (Rle_refl 0) ltac:(lra) Long HC HS).
    rewrite Rplus_0_r.
    apply (lemma_2_slots c mapping select n jobs least comm_heavy C A 1 Given Fast Wide Whole HA); [| |exact HS].
    + intros i Hi. now apply (machine_work c mapping select n jobs least Given).
    + intros i Hi. pose proof (completed_after_arrival n (arrivals jobs) _ C i HC Hi).
      pose proof (arrivals_nonneg c mapping select n jobs least Given i Hi).
      destruct (nat_floor (C i)) as (k & K); [lra|]. destruct (Req_dec (C i) (INR k)) as [E|N]; [exists k; lra|].
      exists (S k). rewrite S_INR. lra.
  - unfold multiple. lra.
Qed.

Example thm_1_starts_in_slots_met : can_be_met thm_1_starts_in_slots.
Proof. pose proof unit_jobs_whole as Whole. met_by_case unit_jobs 0 slot_times. Qed.
