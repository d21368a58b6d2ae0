package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
	"claudeops/test/testtoken"
)

// printRule lets agents print much.
const printRule = `  - {id: web-print, program: webctl, args: [print], tier: 1, reason: It is what is tried.,
     match: [webctl print], not_match: [webctl get]}
`

// printed is how much one command prints: less than what an agent is told of it.
const printed = 29_000

// loud is a session that prints so often and says that all is well.
func loud(times int) string {
	return fmt.Sprintf(`name: loud
tiers:
  1:
    cost_usd: 0.01
    steps: [%s]
    outcome: {schema_version: 1, outcome: healthy, summary: all is well, check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}
    result: All is well.
`, strings.TrimSuffix(strings.Repeat("{bash: 'webctl print'}, ", times), ", "))
}

// outputCap lets a session print three times as much as is kept.
func (t *trying) outputCap(ctx context.Context) error {
	const limit, times = 1 << 20, 3 << 20 / printed
	// So many calls cost more than a session may by default, and whether it ends before it is stopped would be chance.
	const more = "observe: agent\nretention: {session_max_mb: 1}\nbudget: {session_usd: 50, chain_usd: 50, day_usd: 100}\n"
	b := t.box(ctx, setup{scenario: loud(times), more: more})
	b.service.set(true)
	t.recovery = must(b.runToEnd(ctx, modeOnce))
	cycles := must(b.cycles(ctx))
	s := cycles[0].Sessions[0]
	if s.Status != ops.SessionCompleted {
		return fmt.Errorf("the session is %s: %s", s.Status, s.Error)
	}
	lines := must(b.transcript(ctx, s.ID))
	size, marks := 0, 0
	for _, l := range lines {
		size += len(l.Text)
		if strings.Contains(l.Text, `"type":"`+transcript.DroppedOutput+`"`) {
			marks++
		}
	}
	t.found = fmt.Sprintf("of %d MB, %d kB were kept with %d mark", times*printed>>20, size>>10, marks)
	if size > limit+printed || marks != 1 || !strings.Contains(lines[0].Text, "init") || !strings.Contains(lines[len(lines)-1].Text, "result") {
		return fmt.Errorf("%d bytes with %d marks from %.80q to %.80q", size, marks, lines[0].Text, lines[len(lines)-1].Text)
	}
	return errors.Join(b.leftovers(ctx, cycles)...)
}

// transcript reads all output of a session.
func (b *box) transcript(ctx context.Context, id ops.SessionID) (out []ops.Line, err error) {
	s, err := b.database.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // it was read only
	for after := int64(0); ; after = out[len(out)-1].Seq {
		page, err := s.Transcript(ctx, id, after, 1000)
		if err != nil {
			return nil, err
		}
		if out = append(out, page...); len(page) < 1000 {
			return out, nil
		}
	}
}

// noticeWithin is how soon a removed file must be noticed.
const noticeWithin = 5 * time.Second

// deletedFile removes the database in the middle of Tier 2. What was stored is in the copy that the program writes.
func (t *trying) deletedFile(ctx context.Context, replace bool) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(4 * time.Second)})
	p := t.inTier2Of(ctx, b)
	path, acted := filepath.Join(b.state, "claudeops.db"), len(b.service.done())
	check(removeFile(path, replace))
	gone := time.Now()
	if code, body := p.submit("{}"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	check(p.within(noticeWithin, "it is not ready", func() bool {
		code, body := p.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "removed or replaced")
	}))
	noticed := time.Since(gone)
	check(p.until("the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }))
	ended := time.Since(gone)
	if done := b.service.done(); len(done) > acted {
		return fmt.Errorf("%s was done although nothing could be recorded", done[acted].verb)
	}
	p.signal(syscall.SIGTERM)
	check(p.wait())
	if p.code() == 0 || !strings.Contains(p.out.String(), "removed or replaced") {
		return fmt.Errorf("serve exits %d:\n%s", p.code(), p.out.tail())
	}
	copies, err := filepath.Glob(path + ".rescued-*")
	if err != nil || len(copies) != 1 {
		return fmt.Errorf("copies of the database: %v, %w", copies, err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	check(os.Rename(copies[0], path))
	p = t.start(ctx, b, modeServe)
	return t.goesOn(ctx, b, p, fmt.Sprintf("noticed after %s, agents gone after %s", noticed.Round(10*time.Millisecond), ended.Round(10*time.Millisecond)))
}

func removeFile(path string, replace bool) error {
	if !replace {
		return os.Remove(path)
	}
	if err := os.WriteFile(path+".other", nil, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".other", path)
}

// skewedHost runs the chain on a host whose clock is wrong, with a database whose clock is right.
func (t *trying) skewedHost(ctx context.Context, by time.Duration) error {
	d := must(newServer(ctx))
	b := t.box(ctx, setup{ladder: true, database: d})
	clock := b.file("clock")
	check(os.WriteFile(clock, []byte(by.String()), 0o600))
	p := t.start(ctx, b, modeServe, "CLAUDEOPS_FAULT_CLOCK="+clock)
	check(p.until("every cycle has ended", func() bool { return b.quiet(ctx) }))
	t.recovery = time.Since(p.begun)
	check(p.until("an event tells of the clock", func() bool {
		_, body := p.get("/api/v1/events?limit=100")
		return strings.Contains(body, "the database's; the database's time is used")
	}))
	cycles := must(b.cycles(ctx))
	off := time.Duration(0)
	for _, c := range cycles {
		off = max(off, time.Since(c.CreatedAt)-time.Since(p.begun), time.Until(c.CreatedAt))
	}
	t.found = fmt.Sprintf("%s: stored times differ by less than %s; %s", by, max(off, time.Second).Round(time.Second), b.summary(ctx))
	if off > 5*time.Second {
		return fmt.Errorf("a stored time is wrong by %s", off)
	}
	check(p.stop())
	return b.verdict(ctx, true)
}

// alertStorm sends very many alerts at once. They start one cycle for all that fail within one window.
func (t *trying) alertStorm(ctx context.Context, alerts int) error {
	b := t.box(ctx, setup{ladder: true})
	p := t.start(ctx, b, modeServe)
	check(p.until("the first chain has ended", func() bool { return b.quiet(ctx) }))
	before, begun := b.count(ctx), time.Now()
	const each = 500
	for from := 0; from < alerts; from += each {
		body := alertBody(from, each)
		for {
			code, said := p.post("/api/v1/webhooks/generic", body)
			if code == http.StatusAccepted {
				break
			}
			if code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable {
				return fmt.Errorf("alerts answer %d: %.300s", code, said)
			}
			<-time.After(200 * time.Millisecond)
		}
	}
	sent := time.Since(begun)
	if code, said := p.post("/api/v1/webhooks/generic", alertBody(0, alerts)); code != http.StatusRequestEntityTooLarge {
		return fmt.Errorf("all alerts in one body answer %d: %.300s", code, said)
	}
	check(p.until("a cycle was started and has ended", func() bool { return b.count(ctx) > before && b.settled(ctx) }))
	check(p.hold(ctx, b, 45*time.Second))
	started := b.count(ctx) - before
	longest := 0
	for line := range strings.Lines(p.out.String()) {
		longest = max(longest, len(line))
	}
	// Services without a group that fail within one window belong together.
	most := 1 + int(sent/(30*time.Second))
	var code int
	var body string
	check(p.until("/services answers", func() bool { code, body = p.get("/services"); return code == http.StatusOK }))
	t.found = fmt.Sprintf("%d alerts in %s started %d cycles; the longest log line has %d bytes, /services has %d kB",
		alerts, sent.Round(time.Millisecond), started, longest, len(body)>>10)
	if started < 1 || started > most || longest > 10_000 || code != http.StatusOK || len(body) > 200_000 {
		return fmt.Errorf("%s; /services answers %d", t.found, code)
	}
	return p.stop()
}

func alertBody(from, count int) string {
	type one struct {
		Name    string `json:"name"`
		Service string `json:"service"`
		Status  string `json:"status"`
		Level   string `json:"severity"`
	}
	var all []one
	for i := from; i < from+count; i++ {
		all = append(all, one{"Down", fmt.Sprintf("service-%05d", i), "firing", "critical"})
	}
	raw, err := json.Marshal(struct {
		Alerts []one `json:"alerts"`
	}{all})
	if err != nil {
		panic(err) // texts always encode
	}
	return string(raw)
}

// post sends a body to a serving program.
func (p *process) post(path, body string) (int, string) {
	client := &http.Client{Timeout: 60 * time.Second, Transport: testtoken.Transport{}}
	resp, err := client.Post("http://"+p.addr+path, "application/json", strings.NewReader(body)) //nolint:noctx // it has a time-out
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}
