(* A statement that the hypotheses of a theorem can be met, formed by Coq from the theorem itself. *)

Ltac without_conclusion statement :=
  lazymatch statement with
  | forall x : ?A, @?B x =>
      let x := fresh x in
      let rest := constr:(fun x : A => ltac:(
        let b := eval cbv beta in (B x) in let r := without_conclusion b in exact r)) in
      lazymatch rest with fun y : A => @?C y => constr:(forall y : A, C y) end
  | _ => constr:(False)
  end.

Notation can_be_met theorem :=
  (ltac:(let statement := type of theorem in let statement := eval cbv zeta in statement in
         let refutation := without_conclusion statement in
         let refutation := eval cbv beta in refutation in exact (refutation -> False))) (only parsing).
