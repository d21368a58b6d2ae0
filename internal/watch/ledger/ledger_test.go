package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/ledger"
)

var errBroken = errors.New("the engine does not answer")

// memory keeps looks.
type memory struct {
	mu        sync.Mutex
	resources map[string]ops.Resource
	told      []ops.Change
	writes    int
}

func (m *memory) Resources(context.Context, string, string) ([]ops.Resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ops.Resource
	for _, t := range m.resources {
		out = append(out, t)
	}
	return out, nil
}

func (m *memory) RecordLook(_ context.Context, _, host string, l ops.Look, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	for _, t := range l.Gone {
		delete(m.resources, string(t.Kind)+t.Subject)
	}
	for _, t := range l.Resources {
		t.At = at
		m.resources[string(t.Kind)+t.Subject] = t
	}
	for _, c := range l.Changes {
		c.Host = host
		m.told = append(m.told, c)
	}
	return nil
}

// world is a machine that is looked at.
type world struct {
	t     *testing.T
	store *memory
	now   time.Time
	env   ops.Environment
	l     *ledger.Ledger
}

func newWorld(t *testing.T, env ops.Environment, collectors ...ledger.Collector) *world {
	t.Helper()
	env.Name = "home"
	w := &world{t: t, store: &memory{resources: map[string]ops.Resource{}}, now: time.Now(), env: env}
	w.l = &ledger.Ledger{
		Store: w.store, Host: "a", Environments: []ops.Environment{env}, Collectors: collectors, Clock: func() time.Time { return w.now },
		Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }, Logger: slog.New(slog.DiscardHandler),
	}
	return w
}

// look looks again, some minutes later, and returns what it found.
func (w *world) look() []ops.Change {
	w.t.Helper()
	w.now = w.now.Add(ledger.Every)
	before := len(w.store.told)
	w.l.Look(w.t.Context(), w.env)
	return w.store.told[before:]
}

// finds looks again and expects exactly one change with these words.
func (w *world) finds(words ...string) ops.Change {
	w.t.Helper()
	got := w.look()
	if len(got) != 1 {
		w.t.Fatalf("found %+v, want one change with %q", got, words)
	}
	for _, word := range words {
		if !strings.Contains(got[0].Line(), word) {
			w.t.Errorf("%q does not say %q", got[0].Line(), word)
		}
	}
	return got[0]
}

func (w *world) findsNothing() {
	w.t.Helper()
	if got := w.look(); len(got) > 0 {
		w.t.Errorf("found %+v", got)
	}
}

func (w *world) unseen(kind ops.ChangeKind, subject string) string {
	return w.store.resources[string(kind)+subject].Unseen
}

// scripted is a collector that finds what a test says.
type scripted struct {
	resources *[]ops.Resource
	err       *error
}

func (scripted) Kind() ops.ChangeKind { return ops.ChangeContainer }

func (s scripted) Look(context.Context, ops.Environment, map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	return slices.Clone(*s.resources), nil, *s.err
}

func resource(subject string, parts ...ops.Part) ops.Resource {
	return ops.Resource{Subject: subject, Parts: parts}
}

func TestOnlyWhatIsDifferentIsStored(t *testing.T) {
	var resources []ops.Resource
	var failed error
	w := newWorld(t, ops.Environment{}, scripted{&resources, &failed})
	resources = []ops.Resource{resource("web", ops.Part{Name: "image", Value: "a:1"}, ops.Part{Name: "environment", Value: "#1"})}
	w.findsNothing() // the first look is where changes begin
	w.findsNothing()
	if w.store.writes != 1 {
		t.Errorf("%d writes for one state", w.store.writes)
	}
	resources = []ops.Resource{resource("web", ops.Part{Name: "image", Value: "hunter2:2\n\x1b[31m"}, ops.Part{Name: "environment", Value: "#2"})}
	c := w.finds("a: container web: image a:1 → [redacted]:2 [31m; environment changed")
	if !c.At.Equal(w.now) || !c.NotBefore.Equal(w.now.Add(-ledger.Every)) {
		t.Errorf("it happened between %s and %s", c.NotBefore, c.At)
	}
	resources = append(resources, resource("db", ops.Part{Name: "image", Value: "b"}))
	w.finds("container db: is new")
	resources = resources[:1]
	w.finds("container db: is gone")

	// What cannot be seen is not gone, and nothing is told when it is seen as it was.
	kept := resources
	resources, failed = nil, errBroken
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, ""); got != errBroken.Error() {
		t.Errorf("not seen: %q", got)
	}
	resources, failed = []ops.Resource{{Subject: "web", Unseen: "too slow"}}, nil
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, "web"); got != "too slow" {
		t.Errorf("not seen: %q", got)
	}
	resources = kept
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, "web") + w.unseen(ops.ChangeContainer, ""); got != "" {
		t.Errorf("still not seen: %q", got)
	}
	// A host that sees nothing new says once an hour that it looks.
	writes := w.store.writes
	for range 24 {
		w.findsNothing()
	}
	if n := w.store.writes - writes; n < 1 || n > 3 {
		t.Errorf("%d writes in two hours", n)
	}
}

func TestAnExactTimeCountsOnlyForWhatIsNew(t *testing.T) {
	var resources []ops.Resource
	var failed error
	w := newWorld(t, ops.Environment{}, scripted{&resources, &failed})
	old := w.now.Add(-time.Hour)
	is := func(at time.Time, network string) {
		one := resource("web", ops.Part{Name: "started", Value: at.String()}, ops.Part{Name: "networks", Value: network})
		one.At = at
		resources = []ops.Resource{one}
	}
	is(old, "#1")
	w.findsNothing()
	is(old, "#2") // it was not started: nobody knows when
	if c := w.finds("networks changed"); !c.At.Equal(w.now) {
		t.Errorf("it happened at %s", c.At)
	}
	started := w.now.Add(time.Minute)
	is(started, "#2")
	if c := w.finds("started again"); !c.At.Equal(started) || !c.NotBefore.Equal(started) {
		t.Errorf("it happened at %s", c.At)
	}
}

func TestMoreThanCanBeLookedAtIsSaid(t *testing.T) {
	var resources []ops.Resource
	var failed error
	w := newWorld(t, ops.Environment{}, scripted{&resources, &failed})
	for i := range 300 {
		resources = append(resources, resource(strings.Repeat("x", i+1), ops.Part{Name: "image", Value: "a"}))
	}
	w.findsNothing()
	if got := w.unseen(ops.ChangeContainer, ""); got != "only 200 of 300 were looked at" {
		t.Errorf("not seen: %q", got)
	}
}

func TestALookThatBeganLaterIsEnough(t *testing.T) {
	var resources []ops.Resource
	var failed error
	looks := make(chan struct{}, 10)
	w := newWorld(t, ops.Environment{}, counting{scripted{&resources, &failed}, looks})
	other := false
	w.l.Clock = func() time.Time {
		if other {
			return w.now.Add(time.Second)
		}
		other = true
		w.l.Look(t.Context(), w.env) // somebody else is faster
		return w.now
	}
	w.l.Look(t.Context(), w.env)
	if len(looks) != 1 {
		t.Errorf("%d looks", len(looks))
	}
	w.l.Look(t.Context(), w.env)
	if len(looks) != 2 {
		t.Errorf("%d looks for one that asked later", len(looks))
	}
}

// An incident is a reason to look at once; what else is written is not.
func TestAnIncidentIsAReasonToLook(t *testing.T) {
	var resources []ops.Resource
	var failed error
	looks := make(chan struct{}, 10)
	w := newWorld(t, ops.Environment{}, counting{scripted{&resources, &failed}, looks})
	var mu sync.Mutex
	newest := int64(0)
	asked := make(chan struct{}, 10)
	w.l.Newest = func(context.Context) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		asked <- struct{}{}
		return newest, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	nudges := make(chan struct{})
	ended := make(chan error)
	go func() { ended <- w.l.Run(ctx, nudges) }()
	<-looks // at the start
	nudges <- struct{}{}
	<-asked
	if len(looks) > 0 {
		t.Error("it looked without a reason")
	}
	mu.Lock()
	newest = 1
	mu.Unlock()
	nudges <- struct{}{}
	<-looks
	nudges <- struct{}{}
	cancel()
	if err := <-ended; err != nil || len(looks) > 0 {
		t.Errorf("ended with %v after %d more looks", err, len(looks))
	}
}

type counting struct {
	scripted
	looks chan struct{}
}

func (c counting) Look(ctx context.Context, env ops.Environment, before map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	c.looks <- struct{}{}
	return c.scripted.Look(ctx, env, before)
}
