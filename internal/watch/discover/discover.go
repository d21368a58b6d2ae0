// Package discover reads what mounted repositories say about services: their CLAUDE-OPS.md, their .claude-ops folder and their
// compose files.
//
// Others write repositories, so their content is only a proposal. Files are read with limits, links out of a repository are not followed,
// nothing is executed, and a probe that runs a command, sends secrets or takes credentials is refused: those belong into the operator's
// own configuration. Every error becomes a problem with file and line, never a failure.
//
// For a new configuration it also finds what runs on this machine: containers, systemd units, programs that listen on a TCP port, and
// agent programs that are installed.
package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// Limits of what is read. They are far above what people write by hand.
const (
	maxRepositories = 200
	maxFileBytes    = 256 << 10
	maxEntries      = 5000 // files and folders read in one repository
	maxDepth        = 3    // folders below the repository in which compose files are searched
	maxPerFile      = 200  // services
	maxServices     = 1000
	maxList         = 20 // aliases, dependencies, probes of one service
	maxText         = 500
	maxSteps        = 50_000 // keys and values read in one file, merged ones counted each time
	maxProblems     = 200
)

// Found is a service that a repository names.
type Found struct {
	Repository string          `json:"repository"`
	File       string          `json:"file"` // below the folder of repositories
	Line       int             `json:"line"`
	Service    ops.Service     `json:"service"`
	Probes     []ops.ProbeSpec `json:"-"`
	Why        string          `json:"why"`
	// Known is the configured service that already has its name; what is configured always wins.
	Known string `json:"known,omitempty"`
	// Standing compares it with what was accepted.
	Standing Standing `json:"standing,omitempty"`
	// said is what the repository says now.
	said Accepted
	// needs are its dependencies as they were written.
	needs []mention
}

// mention is the name of another service and its line.
type mention struct {
	name string
	line int
}

// Problem is something in a repository that cannot be used.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Result is everything that was found, in the order of repositories and files.
type Result struct {
	Found    []Found
	Problems []Problem
}

// New are the services that are not configured yet.
func (r Result) New() []Found {
	var out []Found
	for _, f := range r.Found {
		if f.Known == "" {
			out = append(out, f)
		}
	}
	return out
}

// Options are what is known besides the repositories. Nil functions check nothing.
type Options struct {
	Known      ops.Inventory // what is configured
	CheckProbe func(ops.ProbeSpec) error
	// ProbeName is what a probe is called among its results.
	ProbeName func(ops.ProbeSpec) string
	// Asked: an operator was asked before, and accepted what Accepted holds.
	Asked    bool
	Accepted []Accepted
}

// Scan reads every repository in the folder. It fails only when the folder itself cannot be read.
func Scan(ctx context.Context, dir string, o Options) (Result, error) {
	s := &scanner{Options: o}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Result{}, fmt.Errorf("read folder of repositories: %w; correct repos_dir", err)
	}
	read := 0
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return Result{}, fmt.Errorf("read repositories: %w", err)
		}
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
			continue
		case e.Type()&fs.ModeSymlink != 0:
			s.problem(shown(name), 0, "is a link, which is not followed; mount the folder itself")
			continue
		case !e.IsDir():
			continue
		}
		if read++; read > maxRepositories {
			s.problem(shown(name), 0, fmt.Sprintf("only the first %d repositories are read", maxRepositories))
			break
		}
		if err := s.repository(ctx, filepath.Join(dir, name), name); err != nil {
			s.problem(shown(name), 0, err.Error())
		}
	}
	if s.Asked {
		s.compare()
	} else {
		s.settle()
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return Result{Found: s.found, Problems: s.problems}, nil
}

// scanner collects while reading goes on.
type scanner struct {
	Options
	found    []Found
	problems []Problem
}

func (s *scanner) problem(file string, line int, message string) {
	// Errors of the system repeat names of files, which may contain anything.
	message = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, message)
	switch {
	case len(s.problems) < maxProblems:
		s.problems = append(s.problems, Problem{file, line, message})
	case len(s.problems) == maxProblems:
		s.problems = append(s.problems, Problem{File: "…", Message: "there are more problems; correct these first"})
	}
}

// shown makes the name of a file safe to print: a repository may contain any name.
func shown(name string) string {
	quoted := fmt.Sprintf("%q", name)
	return quoted[1 : len(quoted)-1]
}

// repository reads one repository: its own description first, then its compose files.
func (s *scanner) repository(ctx context.Context, path, name string) (err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("open repository: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	r := &repository{scanner: s, root: root, name: name}
	if text, ok := r.read(manifestName); ok {
		r.markdown(manifestName, text)
	}
	for _, file := range []string{".claude-ops/services.yaml", ".claude-ops/services.yml"} {
		if text, ok := r.read(file); ok {
			r.declared(file, text)
			break
		}
	}
	files, err := r.composeFiles(ctx)
	for _, file := range files {
		if text, ok := r.read(file); ok {
			r.compose(file, text)
		}
	}
	return err
}
