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
	older    string
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
	flag.StringVar(&o.older, "older", "", "a program of an earlier version (default: it is built from the commit before the newest migration)")
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
