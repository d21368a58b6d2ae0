package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stale is after how many intervals without a check the state of a service is stale.
const stale = 3

// current reports the current state. Known label values are reported as zero too, so that alerts can rely on them.
func (h *Handler) current(ctx context.Context) ([]*family, error) {
	names := ops.Map(h.Environments, func(e ops.Environment) string { return e.Name })
	now, err := h.Store.Reports.Gauges(ctx, names)
	if err != nil {
		return nil, err
	}
	running := newFamily(gauge, "sessions_running", "Running sessions.", "tier")
	byTier := map[string]float64{}
	for t := ops.Tier1; t <= ops.LastTier; t++ {
		byTier[strconv.Itoa(int(t))] = 0
	}
	running.addCounts(byTier, now.Running)
	incidents := newFamily(gauge, "incidents_open", "Incidents that are not resolved.", "severity")
	incidents.addCounts(map[string]float64{string(ops.LevelWarning): 0, string(ops.LevelCritical): 0}, now.OpenIncidents)
	people, err := h.Store.Reports.Attention(ctx, h.Clock())
	if err != nil {
		return nil, err
	}
	states := newFamily(gauge, "incidents", "Incidents that are not resolved, by what they need: open ones need a person.", "status")
	states.add(float64(people.Open), string(ops.IncidentOpen))
	states.add(float64(people.Acknowledged), string(ops.IncidentAcknowledged))
	states.add(float64(people.Snoozed), string(ops.IncidentSnoozed))
	states.add(float64(people.Unverified), string(ops.IncidentUnverified))
	pending := newFamily(gauge, "approvals_pending", "Pending approvals.")
	pending.add(float64(now.PendingApprovals))
	waits := newFamily(histogram, "approval_wait_seconds", "How long approvals waited for an answer.")
	wait := distribution{below: make([]int64, len(waitBounds()))}
	for _, d := range now.ApprovalWaits {
		wait.observe(d.Seconds(), waitBounds())
	}
	waits.addDistribution(wait, waitBounds())
	notices := newFamily(counter, "notifications_total", "Notifications that were sent or failed.", "channel", "result")
	results := map[string]float64{string(ops.NoticeSent): 0, string(ops.NoticeDead): 0, string(ops.NoticeSkipped): 0}
	for _, c := range now.Notices {
		results[c.Words[0]] += float64(c.Rows)
	}
	for _, result := range slices.Sorted(maps.Keys(results)) {
		notices.add(results[result], "apprise", result)
	}
	success := newFamily(gauge, "last_success_timestamp_seconds", "When a cycle of the environment last ended healthy or resolved.",
		"schedule")
	for name, at := range now.LastSuccess {
		success.add(unix(at), name)
	}
	clocks := newFamily(gauge, "host_clock_ahead_seconds", "How far the clock of a host is ahead of the database's.", "host")
	hosts, err := h.Store.Journal.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if host.Alive {
			clocks.add(host.ClockAhead.Seconds(), host.Name)
		}
	}
	return []*family{running, incidents, states, pending, waits, notices, success, clocks}, nil
}

func (f *family) addCounts(known map[string]float64, found []store.Count) {
	for _, c := range found {
		known[c.Words[0]] += float64(c.Rows)
	}
	for word, n := range known {
		f.add(n, word)
	}
}

// watched reports services, cooldowns and budgets.
func (h *Handler) watched(ctx context.Context, now time.Time) ([]*family, error) {
	states, err := h.states(ctx, now)
	if err != nil {
		return nil, err
	}
	left := newFamily(gauge, "cooldown_remaining_actions", "How often an action on a service is still allowed in its window.",
		"environment", "service", "action")
	reset := newFamily(gauge, "cooldown_reset_timestamp_seconds", "When the next action on a service is allowed.",
		"environment", "service", "action")
	limit := newFamily(gauge, "budget_limit_usd", "Budget limit; absent without a limit.", "environment", "window")
	spent := newFamily(gauge, "budget_spent_usd", "Amount spent of the budget.", "environment", "window")
	rate := newFamily(gauge, "spend_usd_per_hour", "Rate of spending over the last three hours.", "environment")
	gone := newFamily(gauge, "budget_gone_timestamp_seconds", "When the daily budget is used up at this rate; absent if it lasts.",
		"environment")
	for _, e := range h.Environments {
		cooldowns, err := h.Store.Acts.Cooldowns(ctx, e.Name, e.Policy.Cooldowns, now)
		if err != nil {
			return nil, err
		}
		for _, c := range cooldowns {
			left.add(float64(c.Left), e.Name, c.Service, c.Action)
			if !c.Until.IsZero() {
				reset.add(unix(c.Until), e.Name, c.Service, c.Action)
			}
		}
		for window, usd := range map[string]float64{"chain": e.Policy.BudgetChainUSD, "day": e.Policy.BudgetDayUSD} {
			if usd > 0 {
				limit.add(usd, e.Name, window)
			}
		}
		costs, err := h.Store.Reports.Spending(ctx, e.Name, ops.SpendWindow, now)
		if err != nil {
			return nil, err
		}
		spent.add(costs.TodayUSD, e.Name, "day")
		f := ops.ForecastOf(e.Policy.BudgetDayUSD, costs, now)
		rate.add(f.PerHourUSD, e.Name)
		if f.GoneAt != nil {
			gone.add(unix(*f.GoneAt), e.Name)
		}
	}
	return []*family{states, left, reset, limit, spent, rate, gone}, nil
}

// states reports the state of each service as five figures, one of which is 1.
func (h *Handler) states(ctx context.Context, now time.Time) (*family, error) {
	checks, err := h.Store.Watch.LatestChecks(ctx, "")
	if err != nil {
		return nil, err
	}
	words := []string{string(ops.Unknown), "stale", string(ops.Healthy), string(ops.Degraded), string(ops.Down)}
	rank := map[ops.Health]int{ops.Healthy: 2, ops.Degraded: 3, ops.Down: 4}
	interval := map[string]time.Duration{}
	worst := map[pair]int{}
	for _, e := range h.Environments {
		interval[e.Name] = e.Interval
		for _, s := range e.Policy.Inventory.Services {
			worst[pair{e.Name, s.Name}] = 0
		}
	}
	for _, c := range checks {
		k := pair{c.Environment, c.Service}
		if every := interval[c.Environment]; every > 0 && now.Sub(c.At) > stale*every {
			worst[k] = max(worst[k], 1)
			continue
		}
		worst[k] = max(worst[k], rank[c.Status])
	}
	f := newFamily(gauge, "service_state", "1 for the state that a service is in.", "environment", "service", "state")
	for k, is := range worst {
		for i, word := range words {
			v := 0.0
			if i == is {
				v = 1
			}
			f.add(v, k[0], k[1], word)
		}
	}
	return f, nil
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

const prefix = "claudeops_"

// kind is the type of a metric.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// family is all samples of one metric.
type family struct {
	name    string
	help    string
	kind    kind
	labels  []string
	samples []sample
}

func newFamily(as kind, name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: as, labels: labels}
}

type sample struct {
	values  []string // of the labels, in their order
	value   float64
	count   uint64             // of a histogram, whose sum the value is
	buckets map[float64]uint64 // of a histogram
}

func (f *family) add(value float64, labels ...string) {
	f.samples = append(f.samples, sample{values: labels, value: value})
}

// addDistribution adds the buckets of a histogram, its sum and its count.
func (f *family) addDistribution(d distribution, bounds []float64, labels ...string) {
	s := sample{values: labels, value: d.sum, count: natural(d.count), buckets: map[float64]uint64{}}
	for i, b := range bounds {
		s.buckets[b] = natural(d.below[i])
	}
	f.samples = append(f.samples, s)
}

func natural[N int | int64 | uint64 | float64](n N) uint64 { return uint64(math.Max(0, float64(n))) }

// contentType is the Prometheus text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// escaped writes a text in quotes or in a comment of the format.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`) //nolint:gochecknoglobals // a constant

// write writes the families in the Prometheus text format, in order. A family without samples is left out. It allocates little: a
// machine may have tens of thousands of services with four samples each.
func write(to io.Writer, families []*family) error {
	var b bytes.Buffer
	for _, f := range slices.SortedFunc(slices.Values(families), func(a, b *family) int { return strings.Compare(a.name, b.name) }) {
		if len(f.samples) == 0 {
			continue
		}
		name := prefix + f.name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, escaped.Replace(f.help), name, f.kind)
		order := f.order()
		slices.SortStableFunc(f.samples, func(a, b sample) int {
			for _, at := range order {
				if c := strings.Compare(a.values[at], b.values[at]); c != 0 {
					return c
				}
			}
			return 0
		})
		for _, x := range f.samples {
			f.writeSample(&b, name, x, order)
		}
	}
	_, err := b.WriteTo(to)
	return err
}

// order is where the labels are, sorted by their names.
func (f *family) order() []int {
	out := make([]int, len(f.labels))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return strings.Compare(f.labels[a], f.labels[b]) })
	return out
}

func (f *family) writeSample(b *bytes.Buffer, name string, x sample, order []int) {
	line := func(suffix, bound, value string) {
		b.WriteString(name)
		b.WriteString(suffix)
		open := byte('{')
		label := func(name, value string) {
			b.WriteByte(open)
			open = ','
			b.WriteString(name)
			b.WriteString(`="`)
			b.WriteString(value)
			b.WriteByte('"')
		}
		for _, at := range order {
			label(f.labels[at], quoted(x.values[at]))
		}
		if bound != "" {
			label("le", bound)
		}
		if open == ',' {
			b.WriteByte('}')
		}
		b.WriteByte(' ')
		b.WriteString(value)
		b.WriteByte('\n')
	}
	if f.kind != histogram {
		line("", "", number(x.value))
		return
	}
	for _, bound := range slices.Sorted(maps.Keys(x.buckets)) {
		line("_bucket", number(bound), strconv.FormatUint(x.buckets[bound], 10))
	}
	line("_bucket", "+Inf", strconv.FormatUint(x.count, 10))
	line("_sum", "", number(x.value))
	line("_count", "", strconv.FormatUint(x.count, 10))
}

func quoted(s string) string {
	if !strings.ContainsAny(s, "\\\n\"") && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(escaped.Replace(strings.ToValidUTF8(s, "\uFFFD")), `"`, `\"`)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
