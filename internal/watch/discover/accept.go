package discover

import (
	"encoding/json"
	"fmt"
	"slices"

	"claudeops/internal/ops"
)

// Standing compares a service in a repository with what an operator accepted.
type Standing string

// The standings. Anybody who can write to a repository can change it, an agent too; so the accepted version stays in use, and a change is
// shown until a person accepts it.
const (
	Unasked Standing = ""        // no person was asked yet
	Trusted Standing = "trusted" // as it was accepted
	Changed Standing = "changed" // what was accepted is used; the repository says something else now
	Gone    Standing = "gone"    // what was accepted is used; the repository no longer names it
	Fresh   Standing = "new"     // found after the others were accepted, and not used
)

// Accepted is a service as the repository described it when an operator accepted it.
type Accepted struct {
	Repository string          `json:"repository"`
	File       string          `json:"file"`
	Line       int             `json:"line"`
	Service    ops.Service     `json:"service"`
	Needs      []string        `json:"needs,omitempty"`
	Probes     []ops.ProbeSpec `json:"probes,omitempty"`
	Why        string          `json:"why"`
}

// Accept is what is stored of a service when it is accepted: its description in the repository, before names are compared.
func (f Found) Accept() Accepted { return f.said }

// fingerprint identifies the description of a service. Its place in the repository does not count.
func (a Accepted) fingerprint() string {
	a.File, a.Line, a.Why = "", 0, ""
	text, err := json.Marshal(a)
	if err != nil {
		return "" // all of it can be encoded
	}
	return string(text)
}

// found is an accepted service, as if the repository still described it so.
func (a Accepted) found(standing Standing) Found {
	f := Found{
		Repository: a.Repository,
		File:       a.File,
		Line:       a.Line,
		Service:    a.Service,
		Probes:     slices.Clone(a.Probes),
		Why:        a.Why,
		Standing:   standing,
		said:       a,
	}
	for _, n := range a.Needs {
		f.needs = append(f.needs, mention{n, a.Line})
	}
	return f
}

// saidOf is a copy of the service as it was written, which later steps do not change.
func saidOf(f Found) Accepted {
	a := Accepted{
		Repository: f.Repository,
		File:       f.File,
		Line:       f.Line,
		Service:    f.Service,
		Needs:      words(f.needs),
		Probes:     slices.Clone(f.Probes),
		Why:        f.Why,
	}
	a.Service.Aliases = slices.Clone(a.Service.Aliases)
	return a
}

// compare replaces what repositories say now with what was accepted. The others come after that and cannot use its names.
func (s *scanner) compare() {
	said, known := s.found, s.Known
	s.found = nil
	used := map[int]bool{}
	for _, a := range s.Accepted {
		i := slices.IndexFunc(said, func(f Found) bool { return f.Repository == a.Repository && f.Service.Name == a.Service.Name })
		switch {
		case i < 0:
			s.found = append(s.found, a.found(Gone))
			continue
		case said[i].said.fingerprint() == a.fingerprint():
			said[i].Standing = Trusted
			s.found = append(s.found, said[i])
		default:
			f := a.found(Changed)
			f.File, f.Line, f.said = said[i].File, said[i].Line, said[i].said // what is shown, and what a person would accept
			s.found = append(s.found, f)
		}
		used[i] = true
	}
	s.settle()
	accepted := s.found
	s.Known.Services = slices.Clone(known.Services)
	taken := map[string]bool{}
	for _, f := range accepted {
		if f.Known == "" {
			s.Known.Services = append(s.Known.Services, f.Service)
			taken[f.Service.Name] = true
		}
	}
	s.found = nil
	for i, f := range said {
		if !used[i] {
			f.Standing = Fresh
			s.found = append(s.found, f)
		}
	}
	s.settle()
	for _, f := range s.found {
		if taken[f.Known] {
			if !slices.ContainsFunc(accepted, func(a Found) bool { return a.Repository == f.Repository && a.Service.Name == f.Known }) {
				s.problem(f.File, f.Line, fmt.Sprintf("%s is already the accepted service %s", quoted(f.Service.Name), quotedPart(f.Known)))
			}
			continue
		}
		accepted = append(accepted, f)
	}
	s.found, s.Known = accepted, known
}

// Watched are the services that are watched where repositories are trusted: the accepted ones, or all before a person was asked.
func (r Result) Watched() []Found {
	var out []Found
	for _, f := range r.New() {
		if f.Standing != Fresh {
			out = append(out, f)
		}
	}
	return out
}

// Unaccepted are the services whose description in a repository nobody has accepted.
func (r Result) Unaccepted() []Found {
	var out []Found
	for _, f := range r.New() {
		if f.Standing == Fresh || f.Standing == Changed || f.Standing == Gone {
			out = append(out, f)
		}
	}
	return out
}
