package agent

import (
	"context"
	"fmt"
	"log/slog"

	"claudeops/internal/agent/keyproxy"
	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
)

// hook sets up one part of what surrounds a session. It returns the context that the session has from then on, and what ends the part
// again. Parts end in reverse order; one that could not be set up leaves nothing to end.
type hook func(ctx context.Context, r *run) (during context.Context, end func(), err error)

// hooks are the parts, in order.
func hooks() []hook {
	return []hook{tried, folders, keys, network, kept, prepared, conversation, behindWalls}
}

// run is one session on its way through the hooks.
type run struct {
	*Runner

	spec     ops.SessionSpec
	log      *slog.Logger
	walls    Walls // nil: none
	folders  Folders
	register func(group string) (started func(process.Ident), err error) // see Program
	keys     proxies
	prepared *Prepared
	program  Program  // as it is started
	proc     *running // nil until it is started
	res      ops.RunResult
}

// warn adds a warning to the result.
func (r *run) warn(format string, args ...any) {
	text := FirstLine(fmt.Sprintf(format, args...))
	r.res.Warnings = append(r.res.Warnings, cut(clean(r.o.Redactor.String(text)), maxSentence, 0))
}

// tried makes sure that the version of the program was tried before its first session.
func tried(ctx context.Context, r *run) (context.Context, func(), error) {
	if r.o.Trial != nil {
		if err := r.o.Trial(ctx, r.spec.Environment); err != nil {
			return ctx, nil, Refuse(ops.FailureStart, "%v", err)
		}
	}
	return ctx, func() {}, nil
}

// folders gives the session fresh ones, and throws away what it left in them.
func folders(ctx context.Context, r *run) (context.Context, func(), error) {
	discard := func() {
		if err := r.folders.discard(); err != nil {
			r.log.WarnContext(ctx, "files of an ended session could not be removed", "error", err)
		}
	}
	var err error
	if r.folders, err = freshFolders(r.spec); err != nil && r.folders.State != "" {
		discard()
	}
	return ctx, discard, err
}

// keys hides the keys of the API from the session.
func keys(ctx context.Context, r *run) (context.Context, func(), error) {
	var err error
	r.keys, err = r.hideKeys(&r.spec)
	return ctx, r.keys.close, err
}

// network gives the session a network of its own. The operator's proxy is the supervisor's to use then.
func network(ctx context.Context, r *run) (context.Context, func(), error) {
	if r.o.Network == nil {
		return ctx, func() {}, nil
	}
	env, end, err := r.o.Network(ctx, r.spec, ops.Map(r.keys, (*keyproxy.Proxy).Address))
	if err != nil {
		return ctx, nil, Refuse(ops.FailureLayer, "%v", err)
	}
	r.spec.Env = append(passing(r.spec.Env, func(name string) bool { return !isProxy(name) }).list(), env...)
	return ctx, end, nil
}

// kept tells the keeper, if there is one, about the session; it keeps the session until nothing is left of it, and may end it.
func kept(ctx context.Context, r *run) (context.Context, func(), error) {
	bound, end := ctx, func() {}
	if k, key := r.o.Keeper, r.spec.Session.Key; k != nil {
		var free func()
		bound, free = k.Bound(ctx)
		end = func() { k.Release(key); free() }
		r.register = func(group string) (func(process.Ident), error) { return k.Register(bound, key, group) }
	}
	return bound, func() {
		end()
		if r.proc != nil {
			r.proc.group.Remove()
		}
	}, nil
}

// prepared asks the adapter for everything that the session needs except its process.
func prepared(ctx context.Context, r *run) (context.Context, func(), error) {
	p, err := r.Prepare(ctx, r.spec, r.walls)
	if err != nil {
		return ctx, nil, err
	}
	if err := r.unavailable.of(p.Program); err != nil {
		p.discard()
		return ctx, nil, err
	}
	r.prepared = p
	return ctx, p.RemoveFiles, nil
}

// conversation keeps the record of the conversation, so that another session can continue it.
func conversation(ctx context.Context, r *run) (context.Context, func(), error) {
	return ctx, func() {
		if r.res.Conversation.Path == "" {
			return
		}
		var err error
		if r.res.Conversation, err = r.folders.keep(r.spec, r.res.Conversation, r.prepared.Attachments); err != nil {
			r.warn("the record of the conversation could not be kept, so no session can continue it: %v", err)
		}
	}, nil
}

// behindWalls sets the walls up, and brings back what the agent left behind them.
func behindWalls(ctx context.Context, r *run) (context.Context, func(), error) {
	p, tier := r.prepared, r.spec.Session.May()
	program, err := p.Program.Behind(r.walls, tier)
	if err == nil && p.Verify != nil {
		err = p.Verify()
	}
	if err != nil {
		p.discard()
		return ctx, nil, err
	}
	program.Key, program.register = r.spec.Session.Key, r.register
	r.program = program
	return ctx, func() {
		if r.proc == nil || r.walls == nil {
			return
		}
		if err := r.walls.Collect(tier); err != nil {
			r.warn("what the agent left behind its walls could not be brought back: %v", err)
		}
	}, nil
}
