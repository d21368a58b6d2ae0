package act

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Undo undoes the run that a session or a person names. A *Refusal means that nothing was done.
func (r *Runner) Undo(ctx context.Context, q Request) (Outcome, error) {
	free, err := r.o.Turns.take(ctx, q.Environment.Name)
	if err != nil {
		return Outcome{}, err
	}
	defer free()
	run, spec, err := r.checkUndo(ctx, q)
	var out Outcome
	if err == nil {
		out, err = r.undo(ctx, q, spec, run)
	}
	var no *Refusal
	if errors.As(err, &no) {
		q.Action = "undo " + strconv.FormatInt(q.Run, 10)
		r.note(ctx, q, no)
	}
	return out, err
}

func (r *Runner) checkUndo(ctx context.Context, q Request) (ops.ActionRun, ops.ActionSpec, error) {
	run, err := r.o.Ledger.ActionRun(ctx, q.Run)
	if err != nil || run.Environment != q.Environment.Name {
		return run, ops.ActionSpec{}, refuse(ruleUnknown, "List the actions first.", "No action has the number %d here.", q.Run)
	}
	spec, known := q.Environment.Policy.Inventory.Action(run.Service, run.Action)
	switch {
	case !known || spec.Digest() != run.Digest:
		return run, spec, refuse(ruleUnknown, "Undo it by hand.", "%s of %s is not configured any more as it was run.", run.Action, run.Service)
	case run.UndoOf != 0:
		return run, spec, refuse(ruleUnknown, fmt.Sprintf("Run %s again if it is needed.", run.Action), "Action %d is itself an undo.", run.ID)
	case !spec.Undoable():
		return run, spec, refuse(ruleUnknown, "Repair the service in another way.", "%s of %s has no way back.", run.Action, run.Service)
	case run.Status == ops.ActionUndone || !run.Status.Ended() || run.Status == ops.ActionRefused:
		return run, spec, refuse(ruleUnknown, "", "Action %d is %s.", run.ID, run.Status)
	}
	if q.Session != nil {
		if err := checkReason(q.Why, true); err != nil {
			return run, spec, err
		}
		if run.SessionID == nil || *run.SessionID != q.Session.ID {
			return run, spec, refuse(ruleOutside, "Report it for a human.", "Action %d was not asked for by this session.", run.ID)
		}
		free := spec
		free.Approval = false
		if err := r.checkSession(ctx, q, free); err != nil {
			return run, spec, err
		}
	}
	if q.DryRun || q.Environment.Policy.DryRun {
		return run, spec, refuse(ruleDryRun, "", "This is a dry run: nothing is changed.")
	}
	if err := r.o.May(); err != nil {
		return run, spec, refuse(ruleLease, "Report it for a human.", "Nothing may be changed now: %v.", err)
	}
	return run, spec, nil
}

// undo runs the way back of a run, by itself where nobody asks for it. It needs no cooldown: what was changed may always be changed back.
func (r *Runner) undo(ctx context.Context, q Request, spec ops.ActionSpec, run ops.ActionRun) (Outcome, error) {
	env, automatic := q.Environment, q.Session == nil && q.Person == ""
	task, err := r.prepareUndo(ctx, env, spec, run)
	if err != nil {
		return Outcome{}, err
	}
	defer task.clean()
	if automatic {
		task.goal = run.Before // what was down before the run is not expected to recover by its undo
	}
	back := run
	back.ID, back.UndoOf, back.Automatic, back.Person, back.Why, back.ApprovalID, back.Step = q.ID, run.ID, automatic, q.Person, q.Why, 0, 0
	back.Does, back.Version, back.Output, back.Error, back.After, back.EndedAt = spec.WayBack(), task.image, "", "", nil, nil
	back.Commit = task.commit
	if q.Person != "" {
		back.CycleID, back.SessionID = nil, nil
	}
	back.Before = r.Look(ctx, env, watchedServices(env, spec))
	failpoint.Hit("action.begin.before")
	intent := store.ActionIntent{Run: back, At: r.o.Clock()}
	if q.Session != nil {
		intent.Record = q.record() // only a session that still runs may undo
	}
	started, _, err := r.o.Ledger.BeginAction(ctx, r.o.Owner(), intent)
	if err != nil {
		return Outcome{}, fmt.Errorf("undo action %d: %w", run.ID, err)
	}
	failpoint.Hit("action.begin.after")
	return r.execute(ctx, env, spec, started, task), nil
}
