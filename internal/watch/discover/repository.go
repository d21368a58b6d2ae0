package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// manifestName is the file in which a repository describes itself.
const manifestName = "CLAUDE-OPS.md"

// repository is one that is being read.
type repository struct {
	*scanner
	root *os.Root
	name string
}

func (r *repository) file(name string) string { return shown(r.name + "/" + name) }

// read returns the text of a file, and false when there is none or it cannot be used.
func (r *repository) read(name string) (string, bool) {
	refuse := func(message string) (string, bool) {
		r.problem(r.file(name), 0, message)
		return "", false
	}
	// A pipe must not make us wait for a writer.
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		return refuse("cannot be read: " + err.Error())
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return refuse("cannot be read: " + err.Error())
	}
	if !info.Mode().IsRegular() {
		return refuse("is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return refuse("cannot be read: " + err.Error())
	}
	if len(data) > maxFileBytes {
		return refuse(fmt.Sprintf("is larger than %d KiB and is not read", maxFileBytes>>10))
	}
	if !utf8.Valid(data) {
		return refuse("is not UTF-8 text")
	}
	return string(data), true
}

// composeNames are in the order in which compose itself prefers them.
func composeNames() []string {
	return []string{"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"}
}

// composeFiles finds the compose files, one per folder, without following links.
func (r *repository) composeFiles(ctx context.Context) ([]string, error) {
	var out []string
	best := map[string]int{}
	seen := 0
	err := fs.WalkDir(r.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			r.problem(r.file(name), 0, "cannot be read: "+err.Error())
			return fs.SkipDir
		}
		if seen++; seen > maxEntries {
			r.problem(shown(r.name), 0, fmt.Sprintf("only the first %d files and folders are read", maxEntries))
			return fs.SkipAll
		}
		if e.IsDir() {
			hidden := name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules")
			if hidden || strings.Count(name, "/") >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		rank := slices.Index(composeNames(), e.Name())
		if rank < 0 {
			return nil
		}
		if e.Type()&fs.ModeSymlink != 0 {
			r.problem(r.file(name), 0, "is a link, which is not followed")
			return nil
		}
		folder := path.Dir(name)
		if before, twice := best[folder]; !twice || rank < before {
			if twice {
				out = slices.DeleteFunc(out, func(f string) bool { return path.Dir(f) == folder })
			}
			best[folder] = rank
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find compose files: %w", err)
	}
	slices.Sort(out)
	return out, nil
}

// add records a service that a file names.
func (r *repository) add(d *document, line int, s ops.Service, probes []ops.ProbeSpec, needs []mention, why string) {
	if !plainName().MatchString(s.Name) {
		r.problem(d.file, line, fmt.Sprintf("%s is not a name for a service: use letters, digits and . _ - @ : /, at most 63",
			quoted(s.Name)))
		return
	}
	if d.services++; d.services > maxPerFile {
		if d.services == maxPerFile+1 {
			r.problem(d.file, line, fmt.Sprintf("only the first %d services of a file are taken", maxPerFile))
		}
		return
	}
	if len(r.found) >= maxServices {
		r.problem(d.file, line, fmt.Sprintf("only the first %d services are taken", maxServices))
		return
	}
	var usable []ops.ProbeSpec
	for _, p := range probes {
		if p.Type == "http" && p.Method == "" {
			p.Method = "GET"
		}
		if r.CheckProbe != nil {
			if err := r.CheckProbe(p); err != nil {
				r.problem(d.file, line, fmt.Sprintf("a probe of %s cannot be used: %s", s.Name, strings.ReplaceAll(err.Error(), "\n", "; ")))
				continue
			}
		}
		p.Service = s.Name
		usable = append(usable, p)
	}
	s.Probed = len(usable) > 0
	f := Found{Repository: r.name, File: d.file, Line: line, Service: s, Probes: usable, Why: why, needs: needs}
	f.said = saidOf(f)
	r.found = append(r.found, f)
}
