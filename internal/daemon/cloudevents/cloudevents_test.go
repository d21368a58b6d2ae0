package cloudevents

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/apitest"
)

const secret = "a-secret-of-twenty-characters"

// taken is one request as a receiver got it.
type taken struct {
	header http.Header
	body   []byte
	event  sdk.Event
}

// receiver takes events.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []taken
	more chan struct{}
	// answer says how the n-th request is answered; nil: 204.
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer, more: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		q.Body = io.NopCloser(strings.NewReader(string(body)))
		event, err := sdk.NewEventFromHTTPRequest(q)
		if err != nil {
			t.Errorf("the SDK cannot read it: %v\n%s", err, body)
			return
		}
		if err := event.Validate(); err != nil {
			t.Errorf("the SDK calls it wrong: %v", err)
		}
		r.mu.Lock()
		r.got = append(r.got, taken{q.Header.Clone(), body, *event})
		n := len(r.got)
		r.mu.Unlock()
		if r.answer != nil {
			r.answer(n, w, q)
		} else {
			w.WriteHeader(http.StatusNoContent)
		}
		r.more <- struct{}{}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []taken {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *receiver) ids() (ids []string) {
	for _, x := range r.all() {
		ids = append(ids, x.event.ID())
	}
	return ids
}

// until waits for the n-th request.
func (r *receiver) until(t *testing.T, n int) {
	t.Helper()
	for len(r.all()) < n {
		select {
		case <-r.more:
		case <-time.After(time.Minute):
			t.Fatalf("%d requests, want %d: %v", len(r.all()), n, r.ids())
		}
	}
}

// running starts a sender over a journal and returns how to tell it of changes.
func running(t *testing.T, j *apitest.Journal, change func(*Sender), targets ...Target) (wake func(), stop func()) {
	t.Helper()
	s := New(Options{
		Journal: j.Store, Queue: j.Store, Targets: targets, Source: "https://ops.example.org", Clock: j.Clock,
		Logger: slog.New(slog.DiscardHandler), Version: "test",
	})
	s.wait = func(int) time.Duration { return time.Millisecond }
	if change != nil {
		change(s)
	}
	// What the test writes after this is sent, before the sender looks for the first time.
	if err := s.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	bell := make(chan struct{}, 100)
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Run(ctx, bell); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	t.Cleanup(stop)
	return func() { bell <- struct{}{} }, stop
}

func open(t *testing.T) *apitest.Journal {
	t.Helper()
	return apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
}

// problem lets a cycle ask for approval and open an incident.
func problem(j *apitest.Journal) ops.CycleID {
	id, _ := j.Await(ops.NewCycle{}, ops.Policy{}, ops.Step{
		Reason: "a person must approve", Incident: &ops.IncidentReport{Title: "disk full", Level: ops.LevelCritical, Services: []string{"web"}, Waits: true},
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2", Reason: "disk full"},
	}, apitest.Run{Tier: ops.Tier1})
	return id
}

func TestEverythingThatHappensIsSentInOrderAndReadByTheSDK(t *testing.T) {
	j, r := open(t), newReceiver(t, nil)
	wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL, Secret: secret})
	problem(j)
	wake()
	r.until(t, 5)
	j.Now = j.Now.Add(time.Minute)
	if _, err := j.Store.Acknowledge(t.Context(), 1, "me", "", j.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Store.Answer(t.Context(), 1, ops.ApprovalDenied, "me", "no", j.Now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	wake()
	r.until(t, 7)
	var types []string
	for _, x := range r.all() {
		types = append(types, x.event.Type()+" "+x.event.Subject())
	}
	want := []string{
		"claudeops.cycle.created cycle/1", "claudeops.cycle.started cycle/1", "claudeops.incident.opened incident/1", "claudeops.incident.called incident/1",
		"claudeops.approval.requested approval/1", "claudeops.incident.acknowledged incident/1", "claudeops.approval.answered approval/1",
	}
	if !slices.Equal(types, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(types, "\n"), strings.Join(want, "\n"))
	}
	last := r.all()[6]
	var row struct {
		Status     string `json:"status"`
		AnsweredBy string `json:"answered_by"`
	}
	if err := json.Unmarshal(last.event.Data(), &row); err != nil || row.Status != "denied" || row.AnsweredBy != "me" {
		t.Errorf("%+v %v", row, err)
	}
	e := last.event
	if e.SpecVersion() != "1.0" || e.Source() != "https://ops.example.org" || e.DataContentType() != "application/json" ||
		e.Extensions()["environment"] != "default" || !e.Time().Equal(j.Now.Add(time.Second)) || e.ID() != "approval-1-answered" {
		t.Errorf("%s", e)
	}
}

func TestTheSignatureCoversIdTimeAndBody(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		key    []byte
	}{
		"a text":  {secret, []byte(secret)},
		"encoded": {"whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567")), []byte("0123456789abcdef01234567")},
	} {
		j, r := open(t), newReceiver(t, nil)
		wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL, Secret: c.secret})
		problem(j)
		wake()
		r.until(t, 1)
		got := r.all()[0]
		id, at := got.header.Get("Webhook-Id"), got.header.Get("Webhook-Timestamp")
		mac := hmac.New(sha256.New, c.key)
		mac.Write([]byte(id + "." + at + "." + string(got.body)))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.header.Get("Webhook-Signature") != want {
			t.Errorf("%s: signature %q, want %q", name, got.header.Get("Webhook-Signature"), want)
		}
		if seconds, err := strconv.ParseInt(at, 10, 64); err != nil || seconds != j.Now.Unix() || id != got.event.ID() {
			t.Errorf("%s: id %q, time %q", name, id, at)
		}
	}
	j, r := open(t), newReceiver(t, nil)
	wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL})
	problem(j)
	wake()
	r.until(t, 1)
	if got := r.all()[0].header.Get("Webhook-Signature"); got != "" {
		t.Errorf("signed without a key: %s", got)
	}
}

func TestAFailedDeliveryIsTriedAgainWithTheSameIdAndKeepsTheOrder(t *testing.T) {
	j := open(t)
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 || n == 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL})
	problem(j)
	wake()
	r.until(t, 7)
	ids := r.ids()
	if ids[1] != ids[2] || ids[2] != ids[3] || len(slices.Compact(slices.Clone(ids))) != 5 {
		t.Errorf("sent %v", ids)
	}
	if string(r.all()[1].body) != string(r.all()[3].body) {
		t.Error("the event changed between two attempts")
	}
	events, err := j.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
	if err != nil || len(events) != 1 || !strings.Contains(events[0].Message, "events for a cannot be delivered") {
		t.Errorf("recorded %+v, %v", events, err)
	}
}

func TestAReceiverContinuesAfterARestartAndANewOneBeginsThere(t *testing.T) {
	j, a, b := open(t), newReceiver(t, nil), newReceiver(t, nil)
	wake, stop := running(t, j, nil, Target{Name: "a", URL: a.URL})
	problem(j)
	wake()
	a.until(t, 5)
	stop()
	if _, err := j.Store.Acknowledge(t.Context(), 1, "me", "", j.Now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	j.Now = j.Now.Add(2 * time.Minute)
	wake, _ = running(t, j, nil, Target{Name: "a", URL: a.URL}, Target{Name: "b", URL: b.URL})
	wake()
	b.until(t, 1)
	// The fifth may have been taken and not recorded when the sender was stopped; then it comes again, with the same id.
	different := func() []string { return slices.Compact(a.ids()) }
	for n := 6; len(different()) < 6; n++ {
		a.until(t, n)
	}
	if got := b.ids(); len(got) != 1 || !strings.HasPrefix(got[0], "incident-1-acknowledged") || different()[5] != got[0] {
		t.Errorf("a %v, b %v", a.ids(), got)
	}
}

func TestTargetsGetOnlyTheirKindsAndEnvironment(t *testing.T) {
	j, a, b, c := open(t), newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
	wake, _ := running(t, j, nil, Target{Name: "a", URL: a.URL, Kinds: []string{KindApproval}}, Target{Name: "b", URL: b.URL, Environment: "other"},
		Target{Name: "c", URL: c.URL})
	problem(j)
	wake()
	c.until(t, 5)
	a.until(t, 1)
	if got := a.ids(); !slices.Equal(got, []string{"approval-1-requested"}) || len(b.ids()) != 0 {
		t.Errorf("a %v, b %v", got, b.ids())
	}
}

// Receivers that are slow, talk without end, send elsewhere or refuse do not get further than the time and the bytes they may have.
func TestHostileReceivers(t *testing.T) {
	elsewhere := newReceiver(t, nil)
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	for name, c := range map[string]struct {
		answer func(n int, w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"slow": {func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-released:
			}
		}, "events for a cannot be delivered"},
		"redirects": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "redirects to another address"},
		"endless answer of an error": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}, "HTTP 500"},
		"endless headers": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}, "events for a cannot be delivered"},
	} {
		t.Run(name, func(t *testing.T) {
			j, good := open(t), newReceiver(t, nil)
			bad := newReceiver(t, c.answer)
			wake, _ := running(t, j, func(s *Sender) { s.client.Timeout = 200 * time.Millisecond },
				Target{Name: "a", URL: bad.URL}, Target{Name: "good", URL: good.URL})
			problem(j)
			wake()
			good.until(t, 5) // the others are not delayed
			for {
				events, err := j.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
				if err != nil {
					t.Fatal(err)
				}
				if len(events) > 0 {
					if !strings.Contains(events[0].Message, c.want) || strings.Contains(events[0].Message, bad.URL) {
						t.Errorf("recorded %q", events[0].Message)
					}
					break
				}
				select {
				case <-bad.more:
				case <-time.After(100 * time.Millisecond):
				}
			}
			for _, x := range bad.all() {
				if x.event.ID() != "cycle-1-created" {
					t.Errorf("it got another event: %s", x.event.ID())
				}
			}
		})
	}
	if got := elsewhere.ids(); len(got) != 0 {
		t.Errorf("sent elsewhere: %v", got)
	}
}

func TestAnEventThatIsAlwaysRefusedDoesNotStopTheOthers(t *testing.T) {
	j := open(t)
	r := newReceiver(t, nil)
	r.answer = func(n int, w http.ResponseWriter, _ *http.Request) {
		if r.all()[n-1].event.ID() == "cycle-1-started" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}
	wake, _ := running(t, j, nil, Target{Name: "a", URL: r.URL})
	problem(j)
	wake()
	r.until(t, 9)
	ids := r.ids()
	if ids[5] != "cycle-1-started" || ids[6] != "incident-1-opened" {
		t.Errorf("sent %v", ids)
	}
	events, err := j.Store.Events(t.Context(), store.EventFilter{Kind: string(ops.EventNotification)})
	if err != nil || len(events) != 2 || !strings.Contains(events[0].Message, "event cycle-1-started was left out for a") {
		t.Errorf("recorded %+v, %v", events, err)
	}
}

func TestALongReportIsLeftOut(t *testing.T) {
	f := fact{kind: KindIncident, row: 1, what: "opened", data: map[string]any{"id": 1, "report": strings.Repeat("x", maxData)}}
	e, err := f.outgoing("/claudeops")
	if err != nil || len(e.Data) > 1000 || !strings.Contains(string(e.Data), `"report":null`) {
		t.Errorf("%d bytes, %v", len(e.Data), err)
	}
}

func TestTheWaitGrowsToHalfAnHour(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 30 * time.Second, 5: 30 * time.Minute, 50: 30 * time.Minute} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
}
