package main_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// calls for a human about web.
func callsForWeb() agenttest.Play {
	return agenttest.Answers(0.01, strings.NewReplacer(`"healthy"`, `"needs_human"`, `"status":"healthy"`, `"status":"down"`).Replace(healthyOutcome))
}

// oneProblem waits for the cycle of web's probe, and then until more has been probed, and checks that there was one cause with one cycle,
// one incident, and one notice of each.
func (d *daemon) oneProblem(b *box, says string, probed *atomic.Int64) {
	d.t.Helper()
	d.until("a person is called", func() bool { c, ok := b.by(ops.TriggerProbe); return ok && c.Cycle.Status == ops.CycleNeedsHuman })
	seen := probed.Load()
	d.until("it goes on", func() bool { return probed.Load() > seen+40 })
	b.read(func(s *store.Store) {
		causes, err := s.Causes(context.Background(), "default", time.Time{})
		if err != nil || len(causes) != 1 || causes[0].Level != ops.Degraded || !strings.Contains(causes[0].Reason, says) || causes[0].ResolvedAt != nil {
			d.t.Errorf("causes are %+v, %v", causes, err)
		}
		open, err := s.Incidents(context.Background(), store.IncidentFilter{Open: true})
		if err != nil || len(open) != 1 || open[0].Service != "web" {
			d.t.Errorf("open are %+v, %v", open, err)
		}
		cycles, err := s.Cycles(context.Background(), store.CycleFilter{Limit: 100})
		started := 0
		for _, c := range cycles {
			if c.Trigger == ops.TriggerProbe {
				started++
			}
		}
		if err != nil || started != 1 {
			d.t.Errorf("%d cycles were started, %v", started, err)
		}
	})
	told := map[ops.NoticeKind]int{}
	for _, n := range b.notices() {
		told[n.Kind]++
	}
	if told["opened"] != 1 || told["needs_human"] != 1 || len(told) != 2 {
		d.t.Errorf("told are %v", told)
	}
	contains(d.t, "status", b.run("services", "list").stdout, "degraded")
}

// A service that fails every fourth check never fails twice in a row.
func TestAServiceThatKeepsFailingNowAndThenIsOneProblem(t *testing.T) {
	t.Parallel()
	var probed atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if probed.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	b := climbing(t, agenttest.InOrder(1, callsForWeb())).configured(quickly + fmt.Sprintf(`services:
  - {name: web, probes: [{type: http, url: %q, interval: 250ms, timeout: 2s}]}
`, service.URL))
	d := b.ready()
	d.oneProblem(b, "web is degraded: it failed 3 times within ", &probed)
}

// A container that somebody restarts again and again is running whenever it is looked at.
func TestAContainerThatIsRestartedAgainAndAgainIsOneProblem(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	var probed atomic.Int64
	begun := time.Now()
	engine := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		starts := probed.Add(1) / 8
		_, _ = fmt.Fprintf(w, `{"Id":"4f5e","RestartCount":0,"State":{"Status":"running","Running":true,"StartedAt":%q}}`,
			begun.Add(time.Duration(starts)*time.Second).Format(time.RFC3339Nano))
	})}
	go func() { _ = engine.Serve(listener) }()
	defer func() { _ = engine.Close() }()
	b := climbing(t, agenttest.InOrder(1, callsForWeb())).configured(quickly + fmt.Sprintf(`services:
  - {name: web, probes: [{type: container, container: web, socket: %q, interval: 250ms}]}
`, socket))
	d := b.ready()
	d.oneProblem(b, "web is degraded: its container was restarted 2 times within 10m0s", &probed)
}

// Without this a service beside probed ones is never seen by anybody.
func TestAServiceWithoutAProbeIsLookedAtOnceADay(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer service.Close()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_INTERVAL=1s").configured(fmt.Sprintf(`services:
  - {name: web, probes: [{type: http, url: %q, interval: 1s}]}
  - {name: db}
`, service.URL))
	const unknown = "db has no probe: one look a day by Tier 1, cost unknown until the first look"
	contains(t, "config check", b.run("config", "check").stderr, "services without a probe: "+unknown)
	contains(t, "doctor", b.run("doctor").stdout, unknown)
	contains(t, "config check", b.run("config", "check", "--observe-every", "0").stderr, "nobody looks at db: no probe, and observe_every is 0. Add a probe, or set observe_every")
	d := b.ready()
	d.until("ten cycles have ended without an agent", func() bool {
		without := 0
		b.read(func(s *store.Store) {
			cycles, err := s.Cycles(context.Background(), store.CycleFilter{Limit: 100})
			if err != nil {
				t.Error(err)
			}
			for _, c := range cycles {
				if c.Status == ops.CycleHealthy && len(c.Sessions) == 0 {
					without++
				}
			}
		})
		return without >= 10
	})
	if calls := b.calls(); len(calls) != 1 {
		t.Errorf("%d agents were started", len(calls))
	}
	const known = "db has no probe: one look a day by Tier 1, about $0.01 a day"
	contains(t, "config check", b.run("config", "check").stderr, known)
	contains(t, "doctor", b.run("doctor").stdout, known)
	_, page := d.get("/services/default/db")
	contains(t, "the page of db", page, "It has no probe: one look a day by Tier 1, about $0.01 a day.")
}
