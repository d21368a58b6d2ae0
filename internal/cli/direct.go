package cli

import (
	"cmp"
	"context"
	"net/http"
	"os/user"
	"sync"

	may "claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// person is the name under which a change is recorded.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// direct is a client of the handler that a daemon serves, in this process. The caller is the user of the operating system.
func (a *app) direct(s *store.Store, cfg *config.Config) *client {
	judge := sync.OnceValues(func() (*guard.Guard, error) { return daemon.NewJudge(cfg) })
	c := newClient("http://localhost", "")
	c.Client = &http.Client{Transport: api.Direct{
		Handler: api.New(api.Options{
			Store: s, Control: rows{s}, Logger: a.logger(), Clock: s.Clock, Version: a.Version, Environments: cfg.Environments(), Trusted: true,
			Guard: daemon.Explainer(cfg, judge), CheckConfig: configs{a}.row,
			Walls:   func() []situation.Wall { return wallsHere(cfg) },
			Address: func() string { return cmp.Or(cfg.Edges.PublicURL, "http://"+cfg.Listen) },
		}),
		Caller: api.Caller{Name: person(), Role: may.RoleAdmin, Local: true},
	}}
	return c
}

// rows is the control of a supervisor that does not run: what is asked is a row, which the next start finds.
type rows struct{ store *store.Store }

func (r rows) Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	return r.store.Journal.SubmitCycle(ctx, n)
}

func (r rows) Cancel(ctx context.Context, id ops.CycleID, why string) error {
	_, err := r.store.Journal.RequestCancel(ctx, id, why, r.store.Clock())
	return err
}

func (rows) Wake(ops.CycleID) {}
