package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/pgtest"
)

// written gives a box a configuration file that the test changes.
func (b *box) written(yaml string) (write func(yaml string)) {
	b.t.Helper()
	b.configured(yaml)
	path := strings.TrimPrefix(b.env[len(b.env)-1], "CLAUDEOPS_CONFIG=")
	return func(yaml string) {
		b.t.Helper()
		must(b.t, os.WriteFile(path, []byte(yaml), 0o600))
	}
}

// reload has the daemon read its configuration again.
func (b *box) reload() {
	b.t.Helper()
	if r := b.run("reload"); r.code != 0 {
		b.t.Fatalf("reload exits %d: %s", r.code, r.stderr)
	}
}

// A session keeps its program, its gate and what that asks for until it ends by itself. What follows in its cycle is decided under the
// configuration that is in effect then.
func TestASessionOutlastsAReloadAndItsCycleFollowsTheNewOne(t *testing.T) {
	t.Parallel()
	goOn := gateFile(t)
	first := agenttest.Escalates(1, 0.03, "jellyfin")
	first.Steps = append(agenttest.Lines(agenttest.Use("toolu_9", "rm -rf /srv"), agenttest.Answer("toolu_9", "gone")), first.Steps...)
	b := newBox(t, plays(held(first, goOn), tier(2, agenttest.Healthy(0.1))))
	write := b.written("interval: 10h\n")
	d := b.ready()
	before := d.working(ops.Tier1)
	write("interval: 10h\nmax_tier: 1\nguard: {enabled: false}\n")
	b.reload()
	if now := d.working(ops.Tier1); now.PID != before.PID {
		t.Errorf("another process runs: %d, then %d", before.PID, now.PID)
	}
	open(t, goOn)
	d.until("the cycle ends", func() bool { return b.ended(1) })
	c := b.cycle()
	if s := c.Journal.Sessions; len(s) != 1 || s[0].Status != ops.SessionCompleted || s[0].Outcome != ops.OutcomeEscalate || len(b.calls()) != 1 {
		t.Errorf("the cycle is %s (%s), its sessions are %+v", c.Cycle.Status, c.Cycle.Reason, s)
	}
	if c.Cycle.Policy.MaxTier != ops.Tier1 {
		t.Errorf("the cycle was decided up to %s", c.Cycle.Policy.MaxTier)
	}
	b.read(func(s *store.Store) {
		judged, err := s.Acts.GuardDecisions(t.Context(), before.ID)
		if err != nil || len(judged) == 0 || judged[0].Allowed {
			t.Errorf("its gate judged %+v, %v", judged, err)
		}
	})
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
	b.nothingLeft()
	b.replay()
}

// Beside others on one database a host keeps its lease, its duties and its sessions, and takes up an environment that is new.
func TestAReloadOfOneOfSeveralHosts(t *testing.T) {
	t.Parallel()
	goOn := gateFile(t)
	first := with(held(agenttest.Healthy(0.1), goOn), func(p *agenttest.Play) { p.Cycle = 1 })
	b := hosts(t, pgtest.URL(t), plays(first, agenttest.Healthy(0.1)), "one")[0]
	write := b.written("environments: [{name: home}]\n")
	d := b.ready()
	before := d.working(ops.Tier1)
	write("environments: [{name: home}, {name: lab}]\n")
	b.reload()
	d.until("the new environment is looked at", func() bool {
		c, ok := b.newest()
		return ok && c.Cycle.Environment == "lab" && c.Cycle.Status == ops.CycleHealthy
	})
	open(t, goOn)
	d.until("the session ends", func() bool { return b.load(before.CycleID).Cycle.Status == ops.CycleHealthy })
	if s := b.load(before.CycleID).Journal.Sessions; len(s) != 1 || s[0].PID != before.PID {
		t.Errorf("its sessions are %+v", s)
	}
	if said := b.run("hosts", "list").stdout; !strings.Contains(said, "lab") {
		t.Errorf("hosts:\n%s", said)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
	b.nothingLeft()
}

// used counts what the process of a daemon has open.
func (d *daemon) used() int {
	d.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	must(d.t, err)
	return len(open)
}

func TestReloadsCutNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	yaml := "interval: 10h\nservices:\n  - {name: backup, probes: [{type: heartbeat, every: 1h}]}\n"
	write := b.written(yaml)
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	job := b.job("backup")

	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.addr+"/stream", nil)
	must(t, err)
	stream.Header.Set("Authorization", "Bearer "+d.token())
	opened, err := http.DefaultClient.Do(stream)
	must(t, err)
	if opened.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %d", opened.StatusCode)
	}
	news := make(chan string, 1000)
	go func() {
		defer close(news)
		for lines := bufio.NewScanner(opened.Body); lines.Scan(); {
			news <- lines.Text()
		}
	}()

	over := make(chan struct{})
	var asking sync.WaitGroup
	var answered, beats atomic.Int64
	loop := func(count *atomic.Int64, method, url string) {
		kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}} // one connection for all
		defer kept.CloseIdleConnections()
		for {
			select {
			case <-over:
				return
			default:
			}
			r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+d.token())
			answer, err := kept.Do(r)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			if count.Add(1); answer.StatusCode/100 != 2 {
				t.Errorf("%s answers %s", url, answer.Status)
			}
			pause(5 * time.Millisecond)
		}
	}
	asking.Go(func() { loop(&answered, http.MethodGet, "http://"+d.addr+"/api/v1/services") })
	asking.Go(func() { loop(&answered, http.MethodGet, "http://"+d.addr+"/readyz") })
	asking.Go(func() { loop(&beats, http.MethodPost, job.URL) })
	b.reload()
	before := d.used()
	for i := range 10 {
		write(fmt.Sprintf("%sdry_run: %t\n", yaml, i%2 == 0))
		b.reload()
	}
	if now := d.used(); now > before+5 {
		t.Errorf("%d descriptors were open after one reload, %d after ten more", before, now)
	}
	close(over)
	asking.Wait()
	if answered.Load() < 20 || beats.Load() < 10 {
		t.Errorf("%d answers, %d heartbeats", answered.Load(), beats.Load())
	}
	for len(news) > 0 {
		<-news
	}
	if code, _ := d.post("/api/v1/silences", map[string]any{"service": "backup", "for": "1h", "reason": "x"}); code/100 != 2 {
		t.Fatalf("a silence is answered %d", code)
	}
	if line, going := <-news; !going {
		t.Errorf("the stream was cut, last line %q", line)
	}
	_ = opened.Body.Close()
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
}

func TestAReloadThatIsRefusedSaysWhyAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	address := loopback.FreeAddress(t)
	yaml := "interval: 10h\nlisten: " + address + "\n"
	write := b.written(yaml)
	d := b.serve("CLAUDEOPS_LISTEN=")
	d.addr = address
	d.until("it is ready", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })
	for name, tt := range map[string]struct {
		yaml string
		code int
		says []string
	}{
		"another address": {
			"interval: 9h\nlisten: " + loopback.FreeAddress(t) + "\nhost: {sessions: 3}\n", 7,
			[]string{"the configuration changes listen, host, which needs a restart"},
		},
		"a probe that changes something": {
			yaml + "services:\n  - name: db\n    probes: [{type: command, command: [rm, -rf, /srv]}]\n", 2,
			[]string{"claudeops.yaml:5", "services[0].probes[0]", "is not run"},
		},
	} {
		write(tt.yaml)
		r := b.runWith([]string{"CLAUDEOPS_LISTEN="}, "reload")
		if r.code != tt.code && !(tt.code == 2 && r.code == 3) {
			t.Errorf("%s: exit %d", name, r.code)
		}
		contains(t, name, r.stderr, tt.says...)
		if _, page := d.get("/config"); !strings.Contains(page, "10h") || strings.Contains(page, "9h") {
			t.Errorf("%s: the page shows another configuration", name)
		}
	}
	// The log tells those who send a signal.
	must(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.until("the log says it", func() bool { return strings.Contains(d.log.String(), "continues with the old one") })
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
}

func TestAKillInTheMiddleOfAReloadContinues(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"reload.swap.before", "reload.swap.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			goOn := gateFile(t)
			b := newBox(t, plays(with(held(agenttest.Healthy(0.1), goOn), func(p *agenttest.Play) { p.Attempt = 1 }), agenttest.Healthy(0.1)),
				"CLAUDEOPS_RECOVERY=on")
			write := b.written("interval: 10h\n")
			d := b.ready("CLAUDEOPS_FAILPOINT=" + point + ":1")
			d.working(ops.Tier1)
			write("interval: 5h\n")
			if r := b.run("reload"); r.code == 0 {
				t.Error("nothing was killed")
			}
			d.done <- <-d.done
			d = b.ready()
			d.until("the cycle ends", func() bool { return b.ended(1) })
			b.finishedOnce(ops.CycleHealthy)
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d\n%s", code, d.log)
			}
			b.nothingLeft()
			if left, _ := filepath.Glob(filepath.Join(b.state, "env", "*")); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}
