package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/test/realcli"
	"claudeops/test/realcodex"
)

const (
	claudeFolder = "claude-code-" + realcli.Version
	codexFolder  = "codex-" + realcodex.Version
	codexModel   = realcodex.Model
)

// options are what the caller asks for.
type options struct {
	only   string
	full   bool
	repeat int
	json   string
	keep   bool
	quick  bool
	slots  int
	faults string
	binary string
	docs   string
}

func runMatrix(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("incidents", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "fault/model/contender; a part may be * or left out")
	flags.BoolVar(&o.full, "full", false, "run everything: the whole grid for Claude Ops and the plain loop, what was chosen for the others")
	flags.IntVar(&o.repeat, "repeat", 1, "run each pair this often")
	flags.StringVar(&o.json, "json", "", "write the results to this file, one JSON object per line")
	flags.BoolVar(&o.quick, "quick", false, "run the pairs of the test only")
	flags.BoolVar(&o.keep, "keep", false, "keep the pages of one pair and print their address")
	flags.IntVar(&o.slots, "slots", 2*runtime.NumCPU(), "pairs that run at once")
	flags.StringVar(&o.faults, "faults", "", "folder with the faults (default: those of the repository)")
	flags.StringVar(&o.binary, "binary", "", "the claudeops to run (default: the one of this checkout), such as that of another version or one that is broken on purpose")
	flags.StringVar(&o.docs, "docs", "", "run nothing; write docs/incidents.md and .html from these results (JSON lines or the page), separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.docs != "" {
		return writeDocs(o)
	}
	b, err := newBench(ctx, o.faults, o.binary)
	if err != nil {
		return err
	}
	jobs := b.jobs(o)
	if err := b.build(ctx, jobs); err != nil {
		return err
	}
	if len(jobs) == 0 {
		return fmt.Errorf("nothing matches %q", o.only)
	}
	if o.keep {
		if len(jobs) > 1 {
			return fmt.Errorf("%q are %d runs; name one as fault/model/contender to keep it", o.only, len(jobs))
		}
		r, err := b.runKept(ctx, jobs[0])
		fmt.Fprintln(os.Stdout, r.line())
		return err
	}
	results, err := b.runAll(ctx, jobs, o)
	newReport(results, b.faults, b.models).print(os.Stdout)
	return err
}

// bench is what all pairs share.
type bench struct {
	root   string
	image  string
	binary string
	faults []*Fault
	models []*Model
	chosen chosen
}

func newBench(ctx context.Context, faults, binary string) (*bench, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("the benchmark makes namespaces and runs Docker: it needs root")
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	b := &bench{root: root, binary: filepath.Join(root, ".cache", "incidents-bin", "claudeops")}
	for _, path := range []string{filepath.Join(".cache", claudeFolder, "claude"), filepath.Join(".cache", codexFolder, "bin/codex")} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			return nil, fmt.Errorf("%w: run script/setup-tests", err)
		}
	}
	if b.faults, err = loadFaults(cmp.Or(faults, filepath.Join(root, "test/incidents/faults"))); err != nil {
		return nil, err
	}
	if b.models, err = loadModels(filepath.Join(root, "test/incidents/models")); err != nil {
		return nil, err
	}
	if b.chosen, err = loadChosen(); err != nil {
		return nil, err
	}
	if binary != "" { // a world has a /tmp of its own, so it is copied
		program, err := os.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("read the program: %w", err)
		}
		b.binary += givenBinary
		if err := os.WriteFile(b.binary, program, 0o755); err != nil {
			return nil, fmt.Errorf("copy the program: %w", err)
		}
	}
	b.image, err = prepareImage(ctx, root)
	return b, err
}

// writeDocs writes the documents from results that were made before.
func writeDocs(o options) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	faults, err := loadFaults(cmp.Or(o.faults, filepath.Join(root, "test/incidents/faults")))
	if err != nil {
		return err
	}
	models, err := loadModels(filepath.Join(root, "test/incidents/models"))
	if err != nil {
		return err
	}
	var all []Result
	var newest time.Time
	for path := range strings.SplitSeq(o.docs, ",") {
		results, at, err := readResults(path)
		if err != nil {
			return err
		}
		all = append(all, results...)
		if at.After(newest) {
			newest = at
		}
	}
	return newReport(all, faults, models).writeDocuments(root, newest)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no go.mod above the working folder")
	}
	return "", fmt.Errorf("find the module: %w", err)
}

// modelNames are the models of the matrix: each behind Claude Code, and four behind Codex as well.
func (b *bench) modelNames() []string {
	var names []string
	for _, m := range b.models {
		names = append(names, m.Name)
	}
	for _, name := range []string{"expert", "wrecker", "museum", "cosmetic"} {
		if slices.Contains(names, name) {
			names = append(names, name+onCodex)
		}
	}
	return names
}

// jobs are the pairs that the caller asks for.
func (b *bench) jobs(o options) []Job {
	var jobs []Job
	for index, f := range b.faults {
		for _, model := range slices.DeleteFunc(b.modelNames(), func(name string) bool { return !f.meets(name) }) {
			for _, contender := range append(contenderNames(), againName) {
				if contender == againName && !strings.HasSuffix(o.only, "/"+againName) {
					continue
				}
				j := Job{Fault: f.Name, Model: model, Contender: contender, Root: b.root, Faults: filepath.Dir(f.Dir), Image: b.image, Binary: b.binary, Keep: o.keep}
				if _, ablated := ablations()[contender]; ablated || contender == againName {
					j.Binary += "-" + contender
				}
				switch {
				case !o.wants(j), o.quick && !inTest(f, index, j), o.full && !b.chosen.inFull(j):
					continue
				case !o.full && !o.quick && o.only == "" && !b.chosen.inSample(j):
					continue
				}
				for j.Repeat = 1; j.Repeat <= o.repeat; j.Repeat++ {
					jobs = append(jobs, j)
				}
			}
		}
	}
	return jobs
}

// wants reports whether a pair belongs to what the caller asks for.
func (o options) wants(j Job) bool {
	parts := strings.Split(o.only, "/")
	for i, name := range []string{j.Fault, j.Model, j.Contender} {
		if i < len(parts) && parts[i] != "" && parts[i] != "*" && parts[i] != name {
			return false
		}
	}
	return true
}

// runAll runs the pairs, a few at once, and returns their results in order.
func (b *bench) runAll(ctx context.Context, jobs []Job, o options) ([]Result, error) {
	var file *os.File
	if o.json != "" {
		var err error
		if file, err = os.Create(o.json); err != nil {
			return nil, fmt.Errorf("write results: %w", err)
		}
		defer func() { _ = file.Close() }()
	}
	results := make([]Result, len(jobs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	// Worlds that only wait for the oracle's later looks lie beside those that work.
	slots, worlds := make(chan struct{}, o.slots), make(chan struct{}, o.slots+waitingWorlds)
	for i, j := range jobs {
		slots <- struct{}{}
		worlds <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			r := b.runOne(ctx, j, sync.OnceFunc(func() { <-slots }))
			<-worlds
			results[i] = r
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintln(os.Stderr, r.line())
			if file != nil {
				_ = json.NewEncoder(file).Encode(r)
			}
		})
	}
	wg.Wait()
	return results, ctx.Err()
}

// waitingWorlds is how many worlds may wait at once; each needs some 250 MB.
const waitingWorlds = 16

// runOne runs a pair. Idle is called when it needs the processors no longer, at the latest at its end.
func (b *bench) runOne(ctx context.Context, j Job, idle func()) Result {
	defer idle()
	r, err := runWorld(ctx, j, "", pairLimit+30*time.Second, idle)
	if err != nil {
		r = Result{Fault: j.Fault, Model: j.Model, Contender: j.Contender, Repeat: j.Repeat, Broken: err.Error()}
	}
	return r
}
