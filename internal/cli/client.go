package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	may "claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/api/situation"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// client asks a server.
type client struct{ mcpserver.Remote }

func newClient(server, token string) *client {
	return &client{mcpserver.Remote{Base: strings.TrimSuffix(server, "/") + api.Prefix, Token: token, Most: mostAnswer, Client: &http.Client{
		Timeout: time.Minute,
		// The API never redirects; whatever does must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}
}

// refusal is the error that a server sent.
type refusal struct {
	detail string
	kind   error // decides the exit code; may be nil
}

func (e *refusal) Error() string { return e.detail }

func (e *refusal) Unwrap() error { return e.kind }

// ask sends a request and reads the answer into out, which may be nil.
func (c *client) ask(ctx context.Context, method, path string, body, out any) error {
	status, text, err := c.Send(ctx, mcpserver.Request{Method: method, Path: path, Body: body}, "")
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if status/100 != 2 {
		return c.nearest(ctx, path, refused(status, text))
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = text
		return nil
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read the server's answer: %w: is this the address of claudeops?", err)
	}
	return nil
}

// refused turns a problem document into an error with the exit code that the same local error has.
func refused(status int, text []byte) error {
	err := &refusal{detail: clean(mcpserver.Problem(status, text))}
	switch status {
	case http.StatusNotFound:
		err.kind = ops.ErrNotFound
	case http.StatusLocked:
		err.kind = ops.ErrStopped
	case http.StatusConflict:
		err.kind = ops.ErrConflict
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return usage(err)
	case http.StatusUnauthorized:
		err.detail = "the server wants another token: set CLAUDEOPS_API_TOKEN, or name its file with --token-file"
	}
	return err
}

// nearest adds to a refusal of a row that does not exist which one is the newest.
func (c *client) nearest(ctx context.Context, path string, err error) error {
	var wrong *refusal
	if !errors.As(err, &wrong) || !errors.Is(wrong.kind, ops.ErrNotFound) {
		return err
	}
	noun := strings.Split(strings.TrimPrefix(path, "/"), "/")[0]
	switch noun {
	case "cycles", "sessions", "incidents", "approvals", "notifications":
	case "actions":
		noun = "actions/runs"
	default:
		return err
	}
	if row, found := strings.CutSuffix(wrong.detail, ": not found"); found && strings.Count(row, " ") == 1 {
		wrong.detail = "no " + row
	}
	rows, failed := items[struct{ ID int64 }](ctx, c, "/"+noun, url.Values{}, 1)
	switch {
	case failed != nil: // the refusal itself is what matters
	case len(rows) == 0:
		wrong.detail += "; there are none yet"
	default:
		wrong.detail += fmt.Sprintf("; the newest is %d", rows[0].ID)
	}
	return err
}

// get reads one thing.
func get[T any](ctx context.Context, c *client, path string) (out T, err error) {
	err = c.ask(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// post sends an action and reads the answer.
func post[T any](ctx context.Context, c *client, path string, body any) (out T, err error) {
	err = c.ask(ctx, http.MethodPost, path, body, &out)
	return out, err
}

// items reads a list, page by page, up to limit.
func items[T any](ctx context.Context, c *client, path string, q url.Values, limit int) ([]T, error) {
	out := []T{}
	for {
		var page struct {
			Items []T     `json:"items"`
			Next  *string `json:"next_cursor"`
		}
		q.Set("limit", strconv.Itoa(min(200, limit-len(out))))
		if err := c.ask(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Next == nil || len(out) >= limit {
			return out, nil
		}
		q.Set("cursor", *page.Next)
	}
}

// query leaves out what is not set.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1]; v != "" && v != "0" && v != "false" {
			q.Set(pairs[i], v)
		}
	}
	return q
}

// moment is a time in a query; none is left out.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func digits[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// upTo200 checks a limit.
func upTo200(limit int) error {
	if limit < 1 || limit > 200 {
		return usage(fmt.Errorf("--limit is %d: use 1 to 200", limit))
	}
	return nil
}

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
