package simulation

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "play this seed alone, and print all of it")
	manySeeds = flag.Int("seeds", 0, "how many seeds to play; 0: 1,000, with -short 50")
	first     = flag.Bool("first", false, "play no further seed after one that fails")
)

// containers is the last seed of a world without a container engine. For five seeds of such worlds one of those above it is played.
const containers = 1_000_000

// The length of a run: events in disorder, then half an hour in which nothing is killed any more and people answer.
const (
	events = 250
	calm   = 30 * time.Minute
)

// simulation is one world with its supervisors.
type simulation struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // of the whole run
	rand    *rand.Rand
	store   *store.Store
	reader  *sql.DB // for the rules
	rules   *sql.Stmt
	marks   *sql.Stmt
	news    *sql.Stmt
	newest  [4]int64 // what marks last found
	logger  *slog.Logger
	keeper  *supervisor.Keeper
	jumps   bool          // the clock does, in this run
	jumped  time.Duration // by it
	setBack bool          // it jumped back
	quiet   bool          // the calm at the end

	reloads, reloaded bool // the configuration may change in this run, and it did

	first     []ops.Environment // as they were configured at the start
	envs      []ops.Environment // as they are now
	services  []*service
	hosts     []*host
	processes map[string]*process // by session key

	moved     map[string]time.Time // when a cycle of an environment last went on
	launches  map[ops.SessionID]bool
	steps     map[string]bool // of approved plans that were carried out
	delivered map[int64]int   // notices
	seen      int64           // the last notice that was looked at
	history   []string
	failure   string
}

func compare[T string | bool](a, b T) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

func (s *simulation) chance(percent int) bool { return s.rand.IntN(100) < percent }
func (s *simulation) clock() time.Time        { return time.Now().UTC().Add(s.jumped) }

func (s *simulation) trace(format string, args ...any) {
	s.history = append(s.history, s.clock().Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// fail records the first rule that is broken.
func (s *simulation) fail(format string, args ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, args...)
		s.trace("BROKEN: %s", s.failure)
	}
}

func (s *simulation) names() []string {
	var out []string
	for _, e := range s.envs {
		out = append(out, e.Name)
	}
	return out
}

func (s *simulation) byName() map[string]ops.Environment {
	out := map[string]ops.Environment{}
	for _, e := range s.envs {
		out[e.Name] = e
	}
	return out
}

// play is one run. What is broken is returned with the history.
func play(t *testing.T, seed uint64) (failure string, history []string) {
	t.Helper()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			t: t, ctx: t.Context(), rand: rand.New(rand.NewPCG(seed, seed)), logger: slog.New(slog.DiscardHandler), //nolint:gosec // to be repeated
			processes: map[string]*process{}, moved: map[string]time.Time{}, launches: map[ops.SessionID]bool{}, steps: map[string]bool{}, delivered: map[int64]int{},
		}
		s.open(path, seed > containers)
		for range events {
			if s.failure != "" {
				break
			}
			s.next()
			s.check()
		}
		s.end()
		if *oneSeed != 0 {
			s.dump()
		}
		for _, h := range s.hosts {
			h.kill(0)
		}
		if err := s.reader.Close(); err != nil {
			t.Error(err)
		}
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
		failure, history = s.failure, s.history
	})
	return failure, history
}

// prepare makes a query ready that is asked often. It is closed with the reader.
func (s *simulation) prepare(query string) *sql.Stmt {
	out, err := s.reader.PrepareContext(s.ctx, query)
	must(s.t, err)
	return out
}

// newFile is an empty database, in memory where the system has a place for that.
func newFile(t *testing.T) string {
	t.Helper()
	path := storetest.NewFile(t)
	dir, err := os.MkdirTemp("/dev/shm", "simulation-") //nolint:usetesting // that is on disk
	if err != nil {
		return path
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	raw, err := os.ReadFile(path)
	must(t, err)
	path = filepath.Join(dir, "claudeops.db")
	must(t, os.WriteFile(path, raw, 0o600))
	return path
}

// open begins. The services of the first environment may run in containers.
func (s *simulation) open(path string, contained bool) {
	var err error
	s.store, err = store.Open(s.ctx, storetest.With(store.Options{Path: path, Clock: s.clock, Uptime: func() (string, time.Duration) { return "", 0 }}))
	must(s.t, err)
	if s.reader, err = sql.Open("sqlite", "file:"+path+"?mode=ro"); err != nil {
		s.t.Fatal(err)
	}
	s.reader.SetMaxOpenConns(1)
	s.rules, s.marks, s.news = s.prepare(allRules()), s.prepare(newestRows), s.prepare(newNotices)
	s.jumps, s.reloads = s.chance(30), s.chance(30)
	if contained {
		s.envs = append(s.envs, s.newEnvironment("home", "web", "db", ops.EngineService))
		s.contained(s.envs[0])
	} else {
		s.envs = append(s.envs, s.newEnvironment("home", "web", "db"))
	}
	s.envs = append(s.envs, s.newEnvironment("lab", "api"))
	s.first = slices.Clone(s.envs)
	s.keeper = &supervisor.Keeper{
		People: s.store.People, Policy: func(name string) ops.ApprovalPolicy { return s.byName()[name].Policy.Approval },
		Answered: func(ops.CycleID) {}, Clock: s.clock, Logger: s.logger,
	}
	for _, name := range []string{"a", "b"} {
		h := &host{sim: s, name: name}
		s.hosts = append(s.hosts, h)
		h.begin()
	}
}

// next is one event, chosen by the seed.
func (s *simulation) next() {
	var ready []*task
	for _, h := range s.hosts {
		for _, k := range h.sorted() {
			if k.goes() {
				ready = append(ready, k)
			}
		}
	}
	switch n := s.rand.IntN(100); {
	case len(ready) > 0 && n < 75:
		ready[s.rand.IntN(len(ready))].step()
	case n < 88 || s.quiet:
		s.pass(time.Duration(1+s.rand.IntN(20_000)) * time.Millisecond)
	case n < 92:
		s.change()
	case n < 96:
		s.people()
	case n < 97:
		s.submit(ops.TriggerScheduled)
	default:
		s.fault()
	}
}

// pass lets time go by. With nothing to do it is a minute more.
func (s *simulation) pass(d time.Duration) {
	if !slices.ContainsFunc(s.hosts, func(h *host) bool { return slices.ContainsFunc(h.sorted(), (*task).goes) }) {
		d += time.Minute
	}
	<-time.After(d)
	synctest.Wait()
	s.leases()
	cycles, err := s.store.Journal.Unfinished(s.ctx)
	if err != nil {
		s.fail("list open cycles: %v", err)
	}
	slices.SortStableFunc(cycles, func(a, b ops.Cycle) int { // what holds its slot comes first
		return compare(b.Status == ops.CycleRunning, a.Status == ops.CycleRunning)
	})
	for _, n := range s.rand.Perm(len(s.hosts)) {
		s.hosts[n].tick(cycles)
	}
}

// leases come before everything else at a time: a host that lost its own has stopped before another takes over.
func (s *simulation) leases() {
	for key, p := range s.processes {
		if !p.until.IsZero() && !p.until.After(time.Now()) {
			delete(s.processes, key)
		}
	}
	for _, h := range s.hosts {
		if !h.back.IsZero() && !h.back.After(time.Now()) {
			s.returns(h)
		}
		h.lease()
	}
}

// change breaks a service, at times with all the others beside it, or heals one by itself.
func (s *simulation) change() {
	v := s.services[s.rand.IntN(len(s.services))]
	if v.problem != "" {
		if s.chance(50) {
			s.heals(v, "")
		}
		return
	}
	together := s.chance(25)
	for _, other := range s.services {
		if other == v || together && other.env == v.env && other.problem == "" {
			s.breaks(other)
		}
	}
}

// fault is something that goes wrong with the supervisors.
func (s *simulation) fault() {
	h := s.hosts[s.rand.IntN(len(s.hosts))]
	if !h.up || h.paused || h.cut {
		return
	}
	back := time.Duration(1+s.rand.IntN(40)) * time.Second
	switch s.rand.IntN(8) {
	case 0, 1, 2:
		s.trace("%s is killed for %s", h.name, back)
		h.kill(back)
	case 3, 4:
		s.trace("%s stands still for %s", h.name, back)
		h.paused, h.back = true, time.Now().Add(back)
	case 5, 6:
		s.trace("%s is cut off for %s", h.name, back)
		h.cut, h.back = true, time.Now().Add(back)
	default:
		s.jump()
	}
}

// jump moves the clock. A host that cannot notice would be taken for dead at once, so all must be well.
func (s *simulation) jump() {
	if !s.jumps || slices.ContainsFunc(s.hosts, func(h *host) bool { return !h.up || h.paused || h.cut }) {
		return
	}
	d := []time.Duration{-10 * time.Minute, -time.Minute, time.Hour, 7 * time.Hour}[s.rand.IntN(4)]
	s.jumped, s.setBack = s.jumped+d, s.setBack || d < 0
	s.trace("the clock jumps by %s", d)
	for _, h := range s.hosts {
		if _, err := s.store.Journal.Renew(s.ctx, h.owner, leaseLength); err == nil {
			h.renewed = time.Now()
		}
	}
}

// returns ends a fault.
func (s *simulation) returns(h *host) {
	h.back = time.Time{}
	s.trace("%s is back", h.name)
	switch {
	case !h.up:
		h.begin()
	case h.paused:
		h.paused, h.late = false, true
		if s.chance(50) { // its tasks may be faster than its lease
			for _, k := range h.sorted() {
				if k.goes() {
					k.step()
				}
			}
		}
	default:
		h.cut, h.late = false, true
	}
}

// end lets everything come to rest, and looks at what is left.
func (s *simulation) end() {
	if s.failure != "" {
		return
	}
	s.quiet = true
	s.trace("from now on nothing goes wrong")
	for _, h := range s.hosts {
		if !h.back.IsZero() {
			s.returns(h)
		}
	}
	for until := time.Now().Add(calm); s.failure == "" && time.Now().Before(until); {
		s.next()
		if s.chance(5) {
			s.settle()
		}
		s.check()
	}
	if s.failure == "" {
		s.rest()
		s.stories()
	}
	if s.failure == "" && !s.reloaded { // what was decided under another configuration is decided in another way
		s.rehearse()
	}
}

// settle is a person who answers one question after the other.
func (s *simulation) settle() {
	asked, err := s.store.People.Approvals(s.ctx, store.ApprovalFilter{Status: ops.ApprovalPending})
	if err != nil {
		s.fail("list questions: %v", err)
	}
	if len(asked) > 0 {
		s.answers(asked[s.rand.IntN(len(asked))])
	}
}

// TestSimulation plays many seeds, each in a world of its own.
func TestSimulation(t *testing.T) {
	storetest.NewFile(t) // its template is made once, and not within a bubble
	if *oneSeed != 0 {
		failure, history := play(t, *oneSeed)
		t.Log("\n" + strings.Join(history, "\n"))
		if failure != "" {
			t.Errorf("seed %d: %s", *oneSeed, failure)
		}
		return
	}
	seeds, twice := *manySeeds, 20 // how many are played twice: a seed is a history
	if testing.Short() {
		twice = 5
	}
	if seeds == 0 {
		seeds = 1000
		if testing.Short() {
			seeds = 50
		}
	}
	var broken atomic.Bool
	for n := range seeds + seeds/5 {
		seed := uint64(n + 1)
		if n >= seeds {
			seed += uint64(containers - seeds)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if *first && broken.Load() {
				return
			}
			if failure, history := play(t, seed); failure != "" {
				broken.Store(true)
				t.Errorf("seed %d: %s\n%s\nrun it again: go test ./test/simulation -run '^TestSimulation$' -seed %d",
					seed, failure, strings.Join(history[max(0, len(history)-40):], "\n"), seed)
			} else if n < twice {
				playsTheSame(t, seed, history)
			}
		})
	}
}

func playsTheSame(t *testing.T, seed uint64, first []string) {
	t.Helper()
	_, second := play(t, seed)
	for i := range min(len(first), len(second)) {
		if first[i] != second[i] {
			t.Fatalf("line %d was %q, and is %q\nafter %s", i+1, first[i], second[i], strings.Join(first[max(0, i-10):i], "\n"))
		}
	}
	if len(first) != len(second) {
		t.Fatalf("%d lines, and then %d", len(first), len(second))
	}
}
