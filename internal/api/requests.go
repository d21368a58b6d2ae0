package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/access"
	"claudeops/internal/decide/report"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// unambiguous refuses a body that two programs could read differently.
func unambiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			WriteProblem(w, http.StatusRequestEntityTooLarge, "the request is too long")
			return
		}
		if why := report.Ambiguous(asked); why != "" {
			WriteProblem(w, http.StatusUnprocessableEntity, "the body "+why)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(asked))
		next.ServeHTTP(w, r)
	})
}

// Caller is the sender of a request.
type Caller struct {
	// Name is the recorded name: the kind of token or login, with its own name if it has one, or the user of a command on this machine.
	Name string
	// Role is what the caller may do. Without one, only what is open to everybody.
	Role access.Role
	// Bearer is true for a caller that sent a token with the request, Login for one with the cookie of a login.
	Bearer, Login bool
	// Via is the program through which the caller sent the request, such as mcp; empty for any other.
	Via string
	// Local is true for a command on this machine, which came through the control socket.
	Local bool
	// KnowsToken is true if the caller has proved to know the token that the operator set, or to be somebody whom no agent can imitate.
	KnowsToken bool
}

// May reports whether the caller may do an operation.
func (c Caller) May(o access.Operation) bool { return c.Role.May(o) }

type callerKey struct{}

// WithCaller stores the caller of a request in its context.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request.
func CallerOf(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return Caller{Name: "api", Role: access.RoleAdmin}
	}
	return c
}

// Recorded is the name under which a request is recorded.
func (c Caller) Recorded() string { return desk.Person{Name: c.Name, Via: c.Via}.String() }

// by is the person of a request.
func by(ctx context.Context) desk.Person {
	c := CallerOf(ctx)
	p := desk.Person{Name: c.Name, Via: c.Via, Door: desk.API}
	if c.Local {
		p.Door = desk.Command
	}
	return p
}

// problem turns an error into one that the caller sees. Internal errors are logged and not shown.
func (s *server) problem(what string, err error) error {
	text, wrong := desk.Problem(err)
	switch {
	case errors.Is(err, ops.ErrNotFound):
		return huma.Error404NotFound(cmp.Or(text, what+": not found"))
	case wrong:
		return huma.Error422UnprocessableEntity(text)
	case errors.Is(err, ops.ErrStopped), errors.Is(err, ops.ErrRestart):
		return huma.NewError(http.StatusLocked, err.Error())
	case errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrSlotBusy):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, ops.ErrQueueFull):
		return huma.ErrorWithHeaders(huma.Error429TooManyRequests(err.Error()+": cancel some of them, or try again when they have run"),
			http.Header{"Retry-After": {queueRetryAfter}})
	case errors.Is(err, context.Canceled):
		return huma.Error503ServiceUnavailable("the request was cancelled")
	case s.Trusted:
		return huma.Error500InternalServerError(err.Error())
	case store.Unavailable(err):
		s.Logger.Warn("the database cannot be used for an API request", "request", what, "error", err)
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(what+": "+databaseAway), http.Header{"Retry-After": {retryAfter}})
	}
	s.Logger.Error("cannot answer an API request", "request", what, "error", err)
	return huma.Error500InternalServerError(what + ": internal error; see the supervisor's log")
}

const (
	// databaseAway is told while the database is locked, full or cannot be reached.
	databaseAway = "the database cannot be used for the moment; try again later"
	// retryAfter is when a caller should try again, in seconds.
	retryAfter = "5"
	// queueRetryAfter is the same where cycles must end first.
	queueRetryAfter = "60"
)

// WriteProblem answers with a problem document.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
}

// Paging are the parameters of a list. It is exported, like every embedded type here, because the router reads exported fields only.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of items."`
	Cursor string `query:"cursor" doc:"The next_cursor of the previous page. Default: the first page."`
}

// after reads the cursor; zero means the first page.
func (p Paging) after() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || id < 1 {
		return 0, errCursor()
	}
	return id, nil
}

func errCursor() error {
	return huma.Error422UnprocessableEntity("the cursor is invalid: use the next_cursor of a list")
}

// list is a page of items; a null cursor means that it is the last page.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// page makes a list of at most limit items from up to limit+1 rows.
func page[R, T any](rows []R, limit int, id func(R) int64, item func(R) T) list[T] {
	out := list[T]{Items: make([]T, 0, min(limit, len(rows)))}
	for i, row := range rows {
		if i == limit {
			next := strconv.FormatInt(id(rows[i-1]), 10)
			out.NextCursor = &next
			break
		}
		out.Items = append(out.Items, item(row))
	}
	return out
}

// listed answers with a page of what is read.
func listed[R, T any](
	s *server, what string, p Paging, read func(before int64, limit int) ([]R, error), id func(R) int64, item func(R) T,
) (*body[list[T]], error) {
	before, err := p.after()
	if err != nil {
		return nil, err
	}
	rows, err := read(before, p.Limit+1)
	if err != nil {
		return nil, s.problem(what, err)
	}
	return &body[list[T]]{page(rows, p.Limit, id, item)}, nil
}

// answer answers with one row.
func answer[R, T any](s *server, what string, row R, err error, item func(R) T) (*body[T], error) {
	if err != nil {
		return nil, s.problem(what, err)
	}
	return &body[T]{item(row)}, nil
}

// whole answers with a list that has one page.
func whole[R, T any](s *server, what string, rows []R, err error, item func(R) T) (*body[list[T]], error) {
	return answer(s, what, list[T]{Items: Rows(rows, item)}, err, same)
}

func same[T any](row T) T { return row }

// body wraps an answer for the router.
type body[T any] struct {
	Body T
}

// created is the answer about something new, with its place.
type created[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// shown answers with the row that a path names.
func shown[R, T any](
	s *server, noun string, read func(ctx context.Context, id int64) (R, error), item func(R) T,
) func(context.Context, *RowPath) (*body[T], error) {
	return func(ctx context.Context, in *RowPath) (*body[T], error) {
		row, err := read(ctx, in.ID)
		return answer(s, fmt.Sprintf("%s %d", noun, in.ID), row, err, item)
	}
}

// text is nil for an empty column.
func text[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	t := string(s)
	return &t
}

// published serves a JSON Schema that agents and editors validate against.
func published(schema []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(schema)
	}
}

// Every resource has one row type, made by one function from what the store returns. The API sends these rows, and the
// command line prints and reads the same ones. A row is defined beside the endpoints that send it.

// Document is a stored document: its JSON as it was written, or a JSON string where the stored text is not JSON.
type Document []byte

// documentOf reads a stored document.
func documentOf(stored []byte) Document {
	if len(stored) == 0 {
		return nil
	}
	valid := []byte(strings.ToValidUTF8(string(stored), "\uFFFD"))
	if json.Valid(valid) {
		return valid
	}
	quoted, err := json.Marshal(string(valid))
	if err != nil {
		return nil // a string always has a JSON form
	}
	return quoted
}

// Text is the document as a person reads it: its JSON, or the text that is not JSON.
func (d Document) Text() string {
	var text string
	if json.Unmarshal(d, &text) == nil {
		return text
	}
	return string(d)
}

// MarshalJSON writes the document as it is; an empty one is null.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) == 0 {
		return []byte("null"), nil
	}
	return d, nil
}

// UnmarshalJSON keeps the document as it is written.
func (d *Document) UnmarshalJSON(text []byte) error {
	*d = nil
	if !bytes.Equal(text, []byte("null")) {
		*d = bytes.Clone(text)
	}
	return nil
}

// Schema says that a document can be any JSON.
func (Document) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// SessionReportRow is a whole session.
func SessionReportRow(s ops.Session) SessionReport {
	return SessionReport{
		Session:      SessionRow(s),
		OutcomeJSON:  documentOf(s.OutcomeJSON),
		HandoffJSON:  documentOf(s.HandoffJSON),
		HandoffError: text(s.HandoffError),
	}
}

// CycleReportRow is a cycle with its policy and everything that was decided in it.
func CycleReportRow(rows ops.IncidentStory, verified []ops.Verification, now time.Time) CycleReport {
	c := rows.Cycles[0]
	j := c.Journal
	approvalRow := func(a ops.Approval) Approval {
		a.States = a.Progress(j.Runs)
		return ApprovalRow(a)
	}
	return CycleReport{
		Cycle:  CycleRow(store.CycleSummary{Cycle: c.Cycle, Sessions: j.Sessions}),
		Policy: c.Cycle.Policy, Result: documentOf(c.Cycle.Result),
		Escalations: Rows(j.Decisions, escalationRow), Recoveries: Rows(j.Recoveries, recoveryRow),
		Verifications: Rows(verified, verificationRow), Approvals: Rows(j.Approvals, approvalRow), Story: story.Tell(rows, now),
	}
}

// Rows makes a row of each stored item. It is never nil, so that an empty list is printed as one.
func Rows[S, R any](stored []S, row func(S) R) []R {
	out := make([]R, 0, len(stored))
	for _, s := range stored {
		out = append(out, row(s))
	}
	return out
}
