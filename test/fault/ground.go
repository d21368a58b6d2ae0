package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // to take the lock that another process would take

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
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
	const limit = 64 << 20
	const times = 3 * limit / printed
	// So many calls cost more than a session may by default, and whether it ends before it is stopped would be chance.
	const more = "observe: agent\nbudget: {chain_usd: 50, day_usd: 100}\n"
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
	if started < 1 || started > most || longest > 10_000 || code != http.StatusOK || len(body) > 256<<10 {
		return fmt.Errorf("%s; /services answers %d", t.found, code)
	}
	return p.stop()
}

// alertRate sends alerts at a steady rate, kills the program right after the last, and looks whether each that was accepted is on record.
func (t *trying) alertRate(ctx context.Context, perSecond int, length time.Duration) error {
	const each = 20
	b := t.box(ctx, setup{ladder: true})
	p := t.start(ctx, b, modeServe)
	check(p.until("the first chain has ended", func() bool { return b.quiet(ctx) }))
	before, pid := b.count(ctx), p.cmd.Process.Pid
	var mu sync.Mutex
	var senders sync.WaitGroup
	var took []time.Duration
	var strange error
	accepted, busy := map[string]bool{}, 0
	tick := time.NewTicker(time.Second * each / time.Duration(perSecond))
	defer tick.Stop()
	begun := time.Now()
	for from := 0; from < int(length.Seconds())*perSecond; from += each {
		<-tick.C
		senders.Go(func() {
			asked := time.Now()
			code, said := p.post("/api/v1/webhooks/generic", alertBody(from, each))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(asked))
			switch code {
			case http.StatusAccepted:
				for i := range each {
					accepted[fmt.Sprintf("service-%05d", from+i)] = true
				}
			case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				busy++
			default:
				strange = fmt.Errorf("alerts answer %d: %.300s", code, said)
			}
		})
	}
	senders.Wait()
	sent, memory := time.Since(begun), status(pid, "VmHWM:")
	p.signal(syscall.SIGKILL)
	check(errors.Join(strange, p.wait()))
	count := len(accepted)
	check(b.forgetRecorded(ctx, accepted))
	p = t.start(ctx, b, modeServe)
	check(p.until("a cycle was started and has ended", func() bool { return b.count(ctx) > before && b.settled(ctx) }))
	check(p.hold(ctx, b, 35*time.Second))
	started := b.count(ctx) - before
	t.found = fmt.Sprintf("%d alerts accepted in %s, %d messages refused as too many, answers %s; %s at most; %d lost by the kill; %d cycles",
		count, sent.Round(100*time.Millisecond), busy, spread(took), memory, len(accepted), started)
	if len(accepted) > 0 || count < perSecond || started < 1 || started > 2+int(sent/(30*time.Second)) {
		return errors.New(t.found)
	}
	return errors.Join(p.stop(), errors.Join(b.leftovers(ctx, must(b.cycles(ctx)))...))
}

// forgetRecorded takes those out of a set of services that have an alert on record.
func (b *box) forgetRecorded(ctx context.Context, services map[string]bool) error {
	s, err := b.database.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	for before := int64(0); ; {
		page, err := s.Alerts(ctx, store.AlertFilter{Before: before, Limit: 500})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			delete(services, a.Service)
		}
		before = page[len(page)-1].ID
	}
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

// corrupt flips bits in the pages of a database whose supervisor was killed. Whatever the next one makes of it, it must say so
// and repair nothing.
func (t *trying) corrupt(ctx context.Context, r *rand.Rand) error {
	b := t.box(ctx, setup{ladder: r.IntN(2) == 0})
	p := t.start(ctx, b, modeServe)
	check(p.until("the chain has ended", func() bool { return b.quiet(ctx) }))
	p.signal(syscall.SIGKILL)
	check(p.wait())
	flips := must(damage(ctx, sqliteFile{b.state}, r))
	b.service.set(false)
	acted := len(b.service.done())
	p = t.start(ctx, b, modeServe)
	how := must(b.stoppedRepairs(p))
	t.found = fmt.Sprintf("%d bits in %s", flips, how)
	if done := b.service.done(); len(done) > acted {
		return fmt.Errorf("%s was done with a damaged journal", done[acted].verb)
	}
	if !p.over() {
		p.signal(syscall.SIGTERM) // it need not be able to record that
		check(p.wait())
	}
	if left := b.orphans(); len(left) > 0 {
		return fmt.Errorf("processes are left: %s", strings.Join(left, ", "))
	}
	return nil
}

// stoppedRepairs waits until a page says that the database is damaged, and then asks for a repair.
func (b *box) stoppedRepairs(p *process) (string, error) {
	const word = "damaged"
	err := p.until("a page says that the database is damaged", func() bool {
		_, body := p.get("/config") // it reads no rows
		return strings.Contains(body, word)
	})
	if err != nil {
		return "", err
	}
	code, _ := p.submit("{}") // it may be queued or refused
	for begun := time.Now(); time.Since(begun) < 3*time.Second; <-time.After(50 * time.Millisecond) {
		if len(b.agents(ops.Tier2))+len(b.agents(ops.Tier3)) > 0 {
			return "", errors.New("a repair was started")
		}
	}
	if code == http.StatusOK {
		return "", errors.New("a cycle was answered with 200")
	}
	if ready, _ := p.get("/readyz"); ready != http.StatusOK {
		return "the file: too damaged to be worked on, the page says so", nil
	}
	return "the file: every page says so, nothing was started", nil
}

// damage flips bits until SQLite itself finds damage, and says how many.
func damage(ctx context.Context, d sqliteFile, r *rand.Rand) (int, error) {
	// What was written last is moved from the log into the file, where it can be hit.
	db, err := sql.Open("sqlite", "file:"+d.path()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err = errors.Join(err, db.Close()); err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	raw, err := os.ReadFile(d.path())
	if err != nil {
		return 0, fmt.Errorf("damage database: %w", err)
	}
	const page = 4096
	for flips := 1; flips < 1000; flips++ {
		// The first page is spared: without it the file is no database at all.
		at := page + r.IntN(len(raw)-page)
		raw[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(d.path(), raw, 0o600); err != nil {
			return 0, fmt.Errorf("damage database: %w", err)
		}
		err := d.check(ctx)
		if store.Damaged(err) {
			return flips, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a thousand flipped bits did no damage")
}

// slowChain is the chain with a Tier 2 that takes its time before it does anything.
func slowChain(pause time.Duration) string {
	return replaceOnce(chain, "      - bash: 'webctl restart'\n", fmt.Sprintf("      - pause: %s\n      - bash: 'webctl restart'\n", pause))
}

// lockDatabase keeps everybody else from writing to the database until release is called.
func lockDatabase(ctx context.Context, path string) (release func() error, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock database: %w", err), db.Close())
	}
	if _, err := conn.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock database: %w", err), conn.Close(), db.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, conn.Close(), db.Close())
	}, nil
}

// locked keeps the database locked in the middle of Tier 2.
func (t *trying) locked(ctx context.Context, ladder bool, length time.Duration) error {
	b := t.box(ctx, setup{ladder: ladder, scenario: slowChain(2 * time.Second)})
	b.refusals = true // what cannot be recorded is not allowed
	p := t.inTier2Of(ctx, b)
	release := must(lockDatabase(ctx, sqliteFile{b.state}.path()))
	before := len(b.service.done())
	slowest := time.Duration(0)
	var err error
	for begun := time.Now(); time.Since(begun) < length; <-time.After(time.Second) {
		asked := time.Now()
		if code, body := p.get("/"); code != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("a page answers %d while the database is locked: %.200s", code, body))
			break
		}
		slowest = max(slowest, time.Since(asked))
	}
	if done := b.service.done(); len(done) > before {
		err = errors.Join(err, fmt.Errorf("%s was done although nothing could be reserved", done[before].verb))
	}
	check(errors.Join(err, release()))
	return t.goesOn(ctx, b, p, fmt.Sprintf("pages answered within %s while it was locked", slowest.Round(time.Millisecond)))
}

// cli runs another command of the program in the box.
func (b *box) cli(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Dir, cmd.Env = b.dir, b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("claudeops %v: %w\n%s", args, err, out)
	}
	return nil
}

// accepted are the cycles that were answered with an id.
type accepted struct {
	mu  sync.Mutex
	ids []int64
}

func (a *accepted) add(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, id)
}

func (a *accepted) all() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ids)
}

// prune removes everything that is older than a second, beside the daemon.
func (b *box) prune(ctx context.Context) (err error) {
	s, err := store.Open(ctx, store.Options{Path: sqliteFile{b.state}.path()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	keep := ops.Retention{Transcripts: time.Second, Checks: time.Second, Events: time.Second}
	return (&supervisor.Retention{Records: s, Keep: keep, Clock: s.Clock, Logger: slog.New(slog.DiscardHandler)}).Look(ctx)
}

// underLoad backs up and prunes the database as often as it can while cycles and alerts are written to it. Every backup must be whole and
// hold what was accepted before it, and nobody who writes may notice.
func (t *trying) underLoad(ctx context.Context, length time.Duration) error {
	const side = 3
	more := "observe: agent\nretention: {transcripts: 1s, checks: 1s, events: 1s}\nenvironments:\n"
	for i := range side {
		more += fmt.Sprintf("  - name: env%d\n", i)
	}
	b := t.box(ctx, setup{scenario: loud(5), more: more})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	check(p.until("the first cycles have ended", func() bool { return b.settled(ctx) && b.count(ctx) >= side }))
	load, end := context.WithTimeout(ctx, length)
	defer end()
	var taken accepted
	var slowest time.Duration
	var alerts int
	failures := make([]error, 2)
	var writers sync.WaitGroup
	writers.Go(func() { slowest, failures[0] = p.submitAll(load, b, side, &taken) })
	writers.Go(func() { alerts, failures[1] = p.alertAll(load) })
	backups := 0
	var kept error
	for load.Err() == nil && kept == nil {
		before := taken.all()
		file := b.file(fmt.Sprintf("backup-%d.db", backups))
		kept = errors.Join(b.cli(ctx, "db", "backup", file), b.cli(ctx, "db", "check", file), b.holds(ctx, file, before), b.prune(ctx))
		backups++
	}
	end()
	writers.Wait()
	check(errors.Join(append(failures, kept)...))
	check(p.until("every cycle has ended", func() bool { return b.quiet(ctx) }))
	cycles := must(b.cycles(ctx))
	errs := []error{b.holds(ctx, sqliteFile{b.state}.path(), taken.all())}
	lines := 0
	for _, c := range cycles {
		if c.Status != ops.CycleHealthy {
			errs = append(errs, fmt.Errorf("cycle %d ended %s: %s", c.ID, c.Status, c.Reason))
		}
		if found, err := b.transcript(ctx, c.Sessions[0].ID); err == nil && len(found) > 0 {
			lines++
		}
	}
	t.found = fmt.Sprintf("%d backups, each checked, and as many prunings, beside %d cycles and %d alerts in %s; the slowest answer took %s; the output of %d of %d sessions is left",
		backups, len(cycles), alerts, length, slowest.Round(time.Millisecond), lines, len(cycles))
	if backups < 2 || len(taken.all()) < 5 || lines == len(cycles) || slowest > 10*time.Second {
		errs = append(errs, errors.New(t.found))
	}
	errs = append(errs, p.stop())
	return errors.Join(append(errs, b.leftovers(ctx, cycles)...)...)
}

// submitAll asks for cycles until the load ends, and returns how long the slowest answer took.
func (p *process) submitAll(load context.Context, b *box, side int, taken *accepted) (slowest time.Duration, err error) {
	for i := 0; load.Err() == nil; i++ {
		begun := time.Now()
		code, body := p.submit(fmt.Sprintf(`{"environment":"env%d"}`, i%side))
		slowest = max(slowest, time.Since(begun))
		var answer struct {
			ID int64 `json:"id"`
		}
		if err := json.Unmarshal([]byte(body), &answer); code != 202 || err != nil || answer.ID == 0 {
			return slowest, fmt.Errorf("submitting answers %d: %.300s", code, body)
		}
		taken.add(answer.ID)
		if i%side == side-1 {
			if err := p.until("the cycles have ended", func() bool { return b.settled(load) || load.Err() != nil }); err != nil {
				return slowest, err
			}
		}
	}
	return slowest, nil
}

// alertAll sends alerts that have ended, so that they start nothing.
func (p *process) alertAll(load context.Context) (sent int, err error) {
	for load.Err() == nil {
		body := fmt.Sprintf(`{"alerts":[{"name":"Down","service":"other-%d","status":"resolved","severity":"critical"}]}`, sent)
		if code, said := p.post("/api/v1/webhooks/generic", body); code != 202 && code != 429 {
			return sent, fmt.Errorf("an alert answers %d: %.300s", code, said)
		}
		sent++
		<-time.After(20 * time.Millisecond)
	}
	return sent, nil
}

// holds reports whether the database in the file has these cycles.
func (b *box) holds(ctx context.Context, file string, ids []int64) error {
	other := *b
	other.database = copyOf{sqliteFile{filepath.Dir(file)}, file}
	cycles, err := other.cycles(ctx)
	if err != nil {
		return err
	}
	have := map[int64]bool{}
	for _, c := range cycles {
		have[int64(c.ID)] = true
	}
	for _, id := range ids {
		if !have[id] {
			return fmt.Errorf("cycle %d was accepted and is not in %s", id, filepath.Base(file))
		}
	}
	return nil
}

const year = 365 * 24 * time.Hour

// clockJump sets the clock of a running supervisor wrong by so much. A second redeployment within a day must stay denied, and
// the schedule may catch up with one cycle at most.
func (t *trying) clockJump(ctx context.Context, by time.Duration) error {
	b := t.box(ctx, setup{ladder: false})
	clock := b.file("clock")
	p := t.start(ctx, b, modeServe, "CLAUDEOPS_FAULT_CLOCK="+clock)
	check(p.until("the first chain has ended", func() bool { return b.quiet(ctx) }))
	if !b.service.well() {
		return errors.New("the first chain did not repair the service")
	}
	b.service.set(false)
	check(os.WriteFile(clock, []byte(by.String()), 0o600))
	jumped := b.count(ctx)
	// The schedule looks at the clock at least every 30 s.
	check(p.hold(ctx, b, 35*time.Second))
	caughtUp := b.count(ctx) - jumped
	if code, body := p.submit("{}"); code != 202 {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	check(p.until("the second chain has ended", func() bool { return b.settled(ctx) }))
	done := map[string]int{}
	for _, a := range b.service.done() {
		done[a.verb]++
	}
	t.found = fmt.Sprintf("%s: %d cycles of the schedule after the jump, %d restarts, %d redeployments in all; %s", by, caughtUp, done["restart"], done["redeploy"], b.summary(ctx))
	var errs []error
	if caughtUp > 1 {
		errs = append(errs, fmt.Errorf("%d cycles were caught up", caughtUp))
	}
	if done["redeploy"] != 1 || done["restart"] > 2 {
		errs = append(errs, fmt.Errorf("a cooldown ended early: %d restarts, %d redeployments", done["restart"], done["redeploy"]))
	}
	if err := p.stop(); err != nil {
		errs = append(errs, err)
	}
	// A supervisor that starts while the clock is wrong does not know better either.
	before := b.count(ctx)
	p = t.start(ctx, b, modeServe, "CLAUDEOPS_FAULT_CLOCK="+clock)
	if err := errors.Join(p.ready(), p.hold(ctx, b, 3*time.Second), p.stop()); err != nil {
		errs = append(errs, fmt.Errorf("start with the wrong clock: %w", err))
	}
	if more := b.count(ctx) - before; more > 1 {
		errs = append(errs, fmt.Errorf("%d cycles were caught up at the start", more))
	}
	cycles := must(b.cycles(ctx))
	return errors.Join(append(append(errs, open(cycles)...), b.leftovers(ctx, cycles)...)...)
}

// clockSteps sets the clock of a running supervisor forth and back while Tier 2 works, each step larger than every time limit. No session may
// end because of it or take a time that it did not take, and the chain must be repaired as if nothing had been.
func (t *trying) clockSteps(ctx context.Context, d database) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(8 * time.Second), database: d})
	clock := b.file("clock")
	p := t.inTier2Of(ctx, b, "CLAUDEOPS_FAULT_CLOCK="+clock)
	steps := []time.Duration{3 * time.Hour, -2 * time.Hour, 26 * time.Hour, -26 * time.Hour, 90 * time.Second, 0}
	for _, by := range steps {
		check(os.WriteFile(clock+".new", []byte(by.String()), 0o600))
		check(os.Rename(clock+".new", clock))
		<-time.After(time.Second)
	}
	check(t.goesOn(ctx, b, p, fmt.Sprintf("the clock went %v", steps)))
	cycles := must(b.cycles(ctx))
	var errs []error
	for _, c := range cycles {
		for _, s := range c.Sessions {
			took := s.EndedAt.Sub(*s.StartedAt)
			if s.Status != ops.SessionCompleted || took < 0 || took > patience {
				errs = append(errs, fmt.Errorf("session %d (%s) is %s after %s: %s", s.ID, s.Tier, s.Status, took, s.Error))
			}
		}
	}
	return errors.Join(errs...)
}

// hold waits for so long, and until every cycle has ended.
func (p *process) hold(ctx context.Context, b *box, d time.Duration) error {
	<-time.After(d)
	return p.until("every cycle has ended", func() bool { return b.settled(ctx) })
}

// open names what is not at its end.
func open(cycles []store.CycleSummary) (errs []error) {
	for _, c := range cycles {
		if !c.Status.Ended() {
			errs = append(errs, fmt.Errorf("cycle %d is still %s", c.ID, c.Status))
		}
		for _, s := range c.Sessions {
			if s.Status == ops.SessionRunning || s.Status == ops.SessionQueued {
				errs = append(errs, fmt.Errorf("session %d is still %s", s.ID, s.Status))
			}
		}
	}
	return errs
}
