package metrics

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// settled is how long after its end a row may be written to the journal.
	settled = time.Minute
	// stretch is how much history is added up at once, so that a cancelled scrape keeps its progress.
	stretch = 14 * 24 * time.Hour
)

// Options are what the figures are made from.
type Options struct {
	Store        *store.Store
	Logger       *slog.Logger
	Clock        ops.Clock
	Version      string
	Environments []ops.Environment
	// WrongTokens counts the wrong tokens since the start; nil if nobody counts them.
	WrongTokens func() int64
	// Process returns the figures of this process; nil if they are not known.
	Process func() Process
}

// Process are the figures of this process.
type Process struct {
	Connections, MaxConnections, RefusedConnections int
	Descriptors, MaxDescriptors                     int
}

// Handler answers a scrape.
type Handler struct {
	Options

	mu     sync.Mutex // guards the fields below: totals of earlier scrapes
	base   totals
	until  time.Time
	marks  store.Marks
	guard  map[triple]float64
	ladder map[pair]float64
}

// New makes a handler that has read nothing yet.
func New(o Options) *Handler {
	return &Handler{Options: o, base: newTotals(), guard: map[triple]float64{}, ladder: map[pair]float64{}}
}

// ServeHTTP answers with all figures, or with none.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text bytes.Buffer
	families, err := h.collect(r.Context())
	if err == nil {
		err = write(&text, families)
	}
	if err != nil {
		h.Logger.ErrorContext(r.Context(), "cannot collect metrics", "error", err)
		http.Error(w, "the metrics could not be collected; see the supervisor's log", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text.Bytes())
}

func (h *Handler) collect(ctx context.Context) ([]*family, error) {
	now := h.Clock()
	ended, err := h.ended(ctx, now)
	if err != nil {
		return nil, err
	}
	feeds, err := h.feeds(ctx)
	if err != nil {
		return nil, err
	}
	current, err := h.current(ctx)
	if err != nil {
		return nil, err
	}
	watched, err := h.watched(ctx, now)
	if err != nil {
		return nil, err
	}
	build := newFamily(gauge, "build_info", "Always 1; the version of this program.", "version", "goversion")
	build.add(1, h.Version, runtime.Version())
	out := []*family{build}
	if h.WrongTokens != nil {
		wrong := newFamily(counter, "wrong_tokens_total", "Wrong tokens, sign-in links and webhook signatures since the start.")
		wrong.add(float64(h.WrongTokens()))
		out = append(out, wrong)
	}
	for _, more := range [][]*family{h.process(), ended, feeds, current, watched} {
		out = append(out, more...)
	}
	return out, nil
}

// process reports connections and descriptors.
func (h *Handler) process() (out []*family) {
	if h.Process == nil {
		return nil
	}
	now := h.Process()
	figure := func(as kind, value int, name, help string) {
		f := &family{name: name, help: help, kind: as}
		f.add(float64(value))
		out = append(out, f)
	}
	figure(gauge, now.Connections, "http_connections", "Open connections to the web pages and the API.")
	figure(gauge, now.MaxConnections, "http_connections_max", "Connections above which idle ones are closed and new ones are refused.")
	figure(counter, now.RefusedConnections, "http_connections_refused_total", "Connections that were refused because too many were open.")
	figure(gauge, now.Descriptors, "descriptors_open", "Open file descriptors of this process.")
	figure(gauge, now.MaxDescriptors, "descriptors_max", "Limit of open file descriptors.")
	return out
}

// ended counts ended sessions and cycles. Totals up to a minute ago are kept.
func (h *Handler) ended(ctx context.Context, now time.Time) ([]*family, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.addUp(ctx, now.Add(-settled)); err != nil {
		return nil, err
	}
	t, err := h.base.plus(ctx, h.Store.Reports, store.Span{After: h.until})
	if err != nil {
		return nil, err
	}
	return t.families(), nil
}

// addUp adds what ended until then, stretch by stretch.
func (h *Handler) addUp(ctx context.Context, until time.Time) error {
	if h.until.IsZero() {
		first, err := h.Store.Reports.FirstEnd(ctx)
		if err != nil || first.IsZero() {
			return err
		}
		h.until = first.Add(-time.Second)
	}
	for h.until.Before(until) {
		end := h.until.Add(stretch)
		if end.After(until) {
			end = until
		}
		sum, err := h.base.plus(ctx, h.Store.Reports, store.Span{After: h.until, Until: end})
		if err != nil {
			return err
		}
		h.base, h.until = sum, end
	}
	return nil
}

func (t totals) families() []*family {
	sessions := newFamily(counter, "sessions_total", "Sessions that ended.", "tier", "trigger", "outcome")
	for k, n := range t.sessions {
		sessions.add(n, k.tier, k.trigger, k.outcome)
	}
	durations := newFamily(histogram, "session_duration_seconds", "Duration of sessions.", "tier", "outcome")
	for k, d := range t.durations {
		durations.addDistribution(d, sessionBounds(), k.tier, k.outcome)
	}
	turns := newFamily(histogram, "session_turns", "Turns per session.", "tier")
	for tier, d := range t.turns {
		turns.addDistribution(d, turnBounds(), tier)
	}
	tokens := newFamily(counter, "tokens_total", "Tokens that sessions reported.", "tier", "model", "type")
	for k, n := range t.tokens {
		tokens.add(n, k[0], k[1], k[2])
	}
	costs := newFamily(counter, "cost_usd_total", "Estimated cost in US dollars that sessions reported.", "tier", "model")
	for k, n := range t.costs {
		costs.add(n, k.tier, k.model)
	}
	escalations := newFamily(counter, "escalations_total", "Escalations from one tier to another.", "from_tier", "to_tier")
	for k, n := range t.escalations {
		escalations.add(n, k[0], k[1])
	}
	cycles := newFamily(counter, "chains_total", "Cycles that ended.", "outcome")
	for outcome, n := range t.cycles {
		cycles.add(n, outcome)
	}
	cycleTimes := newFamily(histogram, "chain_duration_seconds", "Duration of cycles from start to end.")
	cycleTimes.addDistribution(t.cycleTimes, cycleBounds())
	return []*family{sessions, durations, turns, tokens, costs, escalations, cycles, cycleTimes}
}

// feeds counts guard decisions and recoveries; each row is counted once.
func (h *Handler) feeds(ctx context.Context) ([]*family, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	guard, recoveries, marks, err := h.Store.Reports.FeedTotals(ctx, h.marks)
	if err != nil {
		return nil, err
	}
	h.marks = marks
	for _, c := range guard {
		h.guard[triple{c.Words[0], c.Words[1], c.Words[2]}] += float64(c.Rows)
	}
	for _, c := range recoveries {
		h.ladder[pair{c.Words[0], c.Words[1]}] += float64(c.Rows)
	}
	decisions := newFamily(counter, "guard_decisions_total", "Decisions of the guard about tool calls.", "tier", "verdict", "rule")
	for k, n := range h.guard {
		decisions.add(n, k[0], k[1], k[2])
	}
	ladder := newFamily(counter, "recovery_transitions_total", "Recovery attempts.", "level", "error_type")
	for k, n := range h.ladder {
		ladder.add(n, k[0], k[1])
	}
	return []*family{decisions, ladder}, nil
}
