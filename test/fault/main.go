package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are what the command line asks for.
type options struct {
	binary   string
	points   string
	times    int
	random   int
	only     string
	one      string
	seed     uint64
	skip     int
	parallel int
	keep     bool
	list     bool
	sessions int
	courses  string
}

func main() {
	if filepath.Base(os.Args[0]) == ctlName {
		os.Exit(ctl(os.Args[1:]))
	}
	var o options
	flag.StringVar(&o.binary, "binary", "", "the program, built with the tag failpoint (default: it is built)")
	flag.StringVar(&o.points, "points", ".", "kill at the places whose names match this expression")
	flag.IntVar(&o.times, "times", 25, "how often at each place")
	flag.IntVar(&o.random, "random", 1000, "how often at a random moment")
	flag.StringVar(&o.only, "only", "", "these alone, by comma: kill, random, "+strings.Join(faultNames(), ", "))
	flag.StringVar(&o.one, "case", "", "this trial alone, as a failure names it")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "what the random moments follow from")
	flag.IntVar(&o.skip, "skip", 0, "go on at this trial")
	flag.IntVar(&o.parallel, "parallel", 3, "how many at a time")
	flag.BoolVar(&o.keep, "keep", false, "keep the boxes of failures")
	flag.BoolVar(&o.list, "list", false, "list the places and end")
	flag.StringVar(&o.courses, "courses", "", "run the program in this way alone: once or serve, then ladder, again, acts")
	flag.IntVar(&o.sessions, "sessions", 1000, "how many sessions with grandchildren")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	fits, err := regexp.Compile(o.points)
	if err != nil {
		return fmt.Errorf("read -points: %w", err)
	}
	program, remove, err := o.program(ctx)
	if err != nil {
		return err
	}
	defer remove()
	on := courses(o.courses)
	if len(on) == 0 {
		return fmt.Errorf("there is no course %q, only: %v", o.courses, courses(""))
	}
	all, typical, err := places(ctx, program, on)
	if err != nil {
		return err
	}
	if o.list {
		for _, p := range all {
			fmt.Fprintln(out, p.name)
		}
		return nil
	}
	trials := o.trials(all, fits, on)
	fmt.Fprintf(out, "%d places, %d trials, seed %d, %d at a time; a start takes %s\n", len(all), len(trials), o.seed, o.parallel, typical.Round(time.Millisecond))
	p := &programme{
		trying:   trying{program: program, typical: typical, keep: o.keep, seed: o.seed},
		parallel: o.parallel, out: out,
	}
	p.make(ctx, trials, o.skip)
	p.report()
	if n := p.failures(); n > 0 {
		return fmt.Errorf("%d of %d trials failed", n, p.made)
	}
	return ctx.Err()
}

// trials are those that were asked for.
func (o options) trials(all []place, fits *regexp.Regexp, on []course) []trial {
	out := slices.Concat(killTrials(all, fits, o.times), randomTrials(o.random, o.seed, on), faults(o))
	return slices.DeleteFunc(out, func(t trial) bool {
		if o.one != "" {
			return t.name != o.one
		}
		return o.only != "" && !slices.Contains(strings.Split(o.only, ","), t.group)
	})
}

// program is the one that was given, or is built.
func (o options) program(ctx context.Context) (path string, remove func(), err error) {
	if o.binary != "" {
		path, err = filepath.Abs(o.binary)
		return path, func() {}, err
	}
	dir, err := os.MkdirTemp("", "fault-program-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "claudeops")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "failpoint", "-o", path, "./cmd/claudeops")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", nil, errors.Join(fmt.Errorf("build program: %w\n%s", err, said), os.RemoveAll(dir))
	}
	return path, remove, nil
}

// slow is when a recovery is worth a line: on a machine that has time for it, it takes a second or two.
const slow = 10 * time.Second

// trial is one fault and what must hold after it.
type trial struct {
	group  string
	name   string
	detail string
	alone  bool // nothing may run beside it
	run    func(ctx context.Context, t *trying) error
}

// trying is a trial while it is made.
type trying struct {
	program string
	typical time.Duration // how long a start of the program takes
	keep    bool
	seed    uint64

	detail   string
	missed   bool          // the fault did not happen
	recovery time.Duration // from the start after the fault to the end of all work
	found    string        // what is worth telling
	ends     []func(failed bool)
}

// failure ends a trial at once.
type failure struct{ err error }

// check ends the trial if something went wrong.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// attempt makes the trial, and afterwards ends what it started, the last thing first.
func (t *trying) attempt(ctx context.Context, run func(ctx context.Context, t *trying) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
		for _, end := range slices.Backward(t.ends) {
			end(err != nil)
		}
	}()
	return run(ctx, t)
}

// box makes a box that is closed when the trial is over; that of a failure can be kept.
func (t *trying) box(ctx context.Context, s setup) *box {
	if s.program == "" {
		s.program = t.program
	}
	b := must(newBox(ctx, s))
	t.ends = append(t.ends, func(failed bool) {
		keep := t.keep && failed
		if b.close(keep); keep {
			t.detail += " (kept in " + b.dir + ")"
		}
	})
	return b
}

// start starts the program in a box. It is killed when the trial is over.
func (t *trying) start(ctx context.Context, b *box, m mode, env ...string) *process {
	p := must(b.start(ctx, m, env...))
	t.ends = append(t.ends, func(bool) { p.signal(syscall.SIGKILL) })
	return p
}

// tally is what came of the trials of one group.
type tally struct {
	tried, missed int
	failed        []string
	recovery      []time.Duration
	found         []string
}

// programme makes trials, several at a time, and tells how it goes.
type programme struct {
	trying   // what every trial starts with
	parallel int
	out      io.Writer
	begun    time.Time

	mu      sync.Mutex
	order   []string
	tallies map[string]*tally
	made    int
}

func (p *programme) make(ctx context.Context, trials []trial, skip int) {
	p.begun, p.tallies = time.Now(), map[string]*tally{}
	todo := make(chan int)
	var workers sync.WaitGroup
	for range p.parallel {
		workers.Go(func() {
			for i := range todo {
				p.try(ctx, trials, i)
			}
		})
	}
	for i := skip; i < len(trials) && ctx.Err() == nil; i++ {
		if !trials[i].alone {
			todo <- i
		}
	}
	close(todo)
	workers.Wait()
	for i := skip; i < len(trials) && ctx.Err() == nil; i++ {
		if trials[i].alone {
			p.try(ctx, trials, i)
		}
	}
}

func (p *programme) try(ctx context.Context, trials []trial, i int) {
	tr := trials[i]
	t := p.trying
	t.detail = tr.detail
	begun := time.Now()
	err := t.attempt(ctx, tr.run)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.tallies[tr.group]
	if s == nil {
		s = &tally{}
		p.tallies[tr.group] = s
		p.order = append(p.order, tr.group)
	}
	p.made++
	s.tried++
	if t.missed {
		s.missed++
	} else if t.recovery > 0 {
		s.recovery = append(s.recovery, t.recovery)
	}
	if t.found != "" {
		s.found = append(s.found, t.found)
	}
	if err != nil {
		s.failed = append(s.failed, tr.name)
		fmt.Fprintf(p.out, "FAIL %s (case %d; %s)\n%v\n     again: -seed %d -case '%s'\n", tr.name, i, t.detail, err, t.seed, tr.name)
	}
	if t.recovery > slow {
		fmt.Fprintf(p.out, "SLOW %s (case %d; %s): %s to the end of all work\n", tr.name, i, t.detail, t.recovery.Round(10*time.Millisecond))
	}
	if p.made%50 == 0 || tr.alone {
		fmt.Fprintf(p.out, "%s  %d of %d, %d failed; last %s (case %d) took %s %s\n", time.Since(p.begun).Round(time.Second), p.made, len(trials),
			p.failures(), tr.name, i, time.Since(begun).Round(10*time.Millisecond), t.found)
	}
}

func (p *programme) failures() (n int) {
	for _, s := range p.tallies {
		n += len(s.failed)
	}
	return n
}

// report prints what came of it.
func (p *programme) report() {
	fmt.Fprintf(p.out, "\n| fault | trials | fault came too late | failed | from start to the end of all work |\n|---|---|---|---|---|\n")
	for _, g := range p.order {
		s := p.tallies[g]
		fmt.Fprintf(p.out, "| %s | %d | %d | %d | %s |\n", g, s.tried, s.missed, len(s.failed), spread(s.recovery))
		for _, f := range s.found {
			fmt.Fprintf(p.out, "  %s: %s\n", g, f)
		}
	}
	for _, g := range p.order {
		for _, f := range p.tallies[g].failed {
			fmt.Fprintf(p.out, "failed: %s\n", f)
		}
	}
}

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return ""
	}
	slices.Sort(d)
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, longest %s", round(d[len(d)/2]), round(d[len(d)*99/100]), round(d[len(d)-1]))
}

// faults are the ones other than a kill, each with its own file.
func faults(o options) []trial {
	var out []trial
	add := func(group, name string, run func(ctx context.Context, t *trying) error) {
		out = append(out, trial{group: group, name: group + name, alone: true, run: run})
	}
	for _, ladder := range []bool{true, false} {
		add("readonly", fmt.Sprintf("#ladder=%t", ladder), func(ctx context.Context, t *trying) error { return t.readOnly(ctx, ladder) })
	}
	add("endless", "#lines", func(ctx context.Context, t *trying) error { return t.endlessOutput(ctx, endlessLines) })
	add("endless", "#line", func(ctx context.Context, t *trying) error { return t.endlessOutput(ctx, endlessLine) })
	add("tls", "", func(ctx context.Context, t *trying) error { return t.otherCertificate(ctx) })
	add("clock", "#steps", func(ctx context.Context, t *trying) error { return t.clockSteps(ctx, nil) })
	add("clock", "#steps-postgres", func(ctx context.Context, t *trying) error {
		d, err := newServer(ctx)
		if err != nil {
			return err
		}
		return t.clockSteps(ctx, d)
	})
	add("postgres", "#half-dead", func(ctx context.Context, t *trying) error { return t.halfDead(ctx, time.Minute) })
	add("alerts", "#rate", func(ctx context.Context, t *trying) error { return t.alertRate(ctx, 1000, 20*time.Second) })
	add("storm", "", func(ctx context.Context, t *trying) error { return t.forkStorm(ctx, 500) })
	add("grandchildren", "", func(ctx context.Context, t *trying) error { return t.grandchildren(ctx, o.sessions) })
	return out
}

// faultNames lists them for the command line.
func faultNames() (out []string) {
	for _, t := range faults(options{}) {
		if !slices.Contains(out, t.group) {
			out = append(out, t.group)
		}
	}
	return out
}
