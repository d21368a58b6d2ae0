package decide

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// policyPath is where a frame says the policy, which is long and mostly the same.
const policyPath = "cycle.Policy"

// Reel reads frames back, one cycle after the other. A field that is no longer known is an error: what was decided from it would be
// decided from something else now.
type Reel struct {
	state    map[string]json.RawMessage
	sessions map[ops.SessionID]*ops.Session
	policies map[string]ops.Policy // by their text
}

// Taken reads the next frame.
func (r *Reel) Taken(raw []byte) (Taken, error) {
	var f Frame
	if err := strictly(raw, &f); err != nil {
		return Taken{}, err
	}
	if _, anew := f.Set["cycle.ID"]; anew {
		r.state, r.sessions = map[string]json.RawMessage{}, map[ops.SessionID]*ops.Session{}
	} else if r.state == nil {
		return Taken{}, fmt.Errorf("what came before it is not there")
	}
	maps.Copy(r.state, f.Set)
	for _, path := range f.Gone {
		delete(r.state, path)
	}
	d := Taken{At: f.At}
	for prefix, into := range map[string]any{"cycle": &d.Cycle, "journal": &d.Journal} {
		if err := r.gather(prefix, into); err != nil {
			return Taken{}, fmt.Errorf("%s: %w", prefix, err)
		}
	}
	var err error
	if d.Cycle.Policy, err = r.policy(); err != nil {
		return Taken{}, fmt.Errorf("policy: %w", err)
	}
	for i := range d.Journal.Sessions {
		s := &d.Journal.Sessions[i]
		if k := r.sessions[s.ID]; k != nil && k.Status.Ended() { // what it said is read once
			s.Proposal, s.Report = k.Proposal, k.Report
		} else {
			report.Read(s)
			r.sessions[s.ID] = s
		}
	}
	if err := strictly(f.Step, &d.Step); err != nil {
		return Taken{}, fmt.Errorf("decision: %w", err)
	}
	return d, nil
}

// Lost forgets what was read, so that only a frame that says everything can follow.
func (r *Reel) Lost() { r.state = nil }

// policy is the policy of the cycle. Few differ, so each is read once.
func (r *Reel) policy() (ops.Policy, error) {
	raw, ok := r.state[policyPath]
	if !ok {
		return ops.Policy{}, nil
	}
	if p, known := r.policies[string(raw)]; known {
		return p, nil
	}
	var p ops.Policy
	if err := strictly(raw, &p); err != nil {
		return p, err
	}
	if r.policies == nil {
		r.policies = map[string]ops.Policy{}
	}
	r.policies[string(raw)] = p
	return p, nil
}

// gather builds a struct from its paths.
func (r *Reel) gather(prefix string, into any) error {
	fields, lists := []string{}, map[string][]string{}
	for path, value := range r.state {
		parts := strings.SplitN(path, ".", 3)
		switch {
		case parts[0] != prefix || path == policyPath:
		case len(parts) == 2:
			fields = append(fields, fmt.Sprintf("%q:%s", parts[1], value))
		default:
			i, err := strconv.Atoi(parts[2])
			if err != nil {
				return fmt.Errorf("path %s: %w", path, err)
			}
			list := lists[parts[1]]
			for len(list) <= i {
				list = append(list, "null")
			}
			list[i] = string(value)
			lists[parts[1]] = list
		}
	}
	for name, list := range lists {
		fields = append(fields, fmt.Sprintf("%q:[%s]", name, strings.Join(list, ",")))
	}
	return strictly([]byte("{"+strings.Join(fields, ",")+"}"), into)
}

func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
