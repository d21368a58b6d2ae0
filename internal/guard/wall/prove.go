package wall

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// canaryName is the file in the state folder that no session may read or write.
const canaryName = "canary"

// PrepareSession makes the folders that only this session has. It comes after Prepare.
func (s *Sandbox) PrepareSession(tier ops.Tier, session Session) error {
	temp := s.Temp(session)
	if temp == "" || !s.on(tier) {
		return nil
	}
	who, err := s.owner(tier)
	if err != nil {
		return err
	}
	if c := session.Clones; c != nil && s.c.UIDs[tier] != 0 && isFolder(c.Folder) {
		if err := s.give(c.Folder, who); err != nil {
			return fmt.Errorf("give clones to user %d: %w", who.uid, err)
		}
	}
	parent := filepath.Dir(temp)
	if err := s.clearTemps(parent, filepath.Base(temp)); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("make temporary folder of the session: %w", err)
	}
	if s.c.UIDs[tier] != 0 { // the agent's user passes through the folder above
		if err := errors.Join(os.Chmod(parent, passable), s.give(temp, who)); err != nil {
			return fmt.Errorf("give temporary folder to user %d: %w", who.uid, err)
		}
	}
	return nil
}

// clearTemps removes the temporary folders of earlier sessions: the sessions of an environment run one after the other.
func (s *Sandbox) clearTemps(parent, keep string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(parent, 0o700)
	}
	if err != nil {
		return fmt.Errorf("read temporary folders: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			return fmt.Errorf("remove temporary folder of an earlier session: %w", err)
		}
	}
	return nil
}

// plan is what the process of an agent does before it becomes the agent. A session with an id first tries its walls from inside, as its
// commands will run: files outside cannot be written, secrets cannot be read, other processes cannot be signalled, and the sockets
// of docker and the supervisor do not answer.
func (s *Sandbox) plan(tier ops.Tier, session Session, program string) (confine.Plan, error) {
	plan := confine.Plan{Walls: []*confine.Wall{s.around(tier, session, program)}}
	if session.Net != nil {
		plan.Network = session.Net.Relay
	}
	if session.ID == "" {
		return plan, nil
	}
	trial, err := s.trial(tier, session)
	if err != nil {
		return plan, err
	}
	if session.Ungated {
		tried := *plan.Walls[0]
		tried.Trial = trial
		plan.Trial = []*confine.Wall{&tried}
		return plan, nil
	}
	inner := s.Command(tier, session)
	inner.Trial = trial
	plan.Trial = []*confine.Wall{plan.Walls[0], inner}
	return plan, nil
}

// Verdict reads the first line that a session prints: one sentence for the record when its walls hold, or a *LayerError. Mine reports
// whether the line is from the trial.
func (s *Sandbox) Verdict(tier ops.Tier, line string) (sentence string, mine bool, err error) {
	report, mine := strings.CutPrefix(line, confine.Report)
	hold, found, again := strings.Cut(report, confine.Again)
	switch {
	case !mine:
		return "", false, &LayerError{Layer: LayerLandlock, Why: "the session did not try its walls", Fix: "run claudeops doctor"}
	case hold != confine.Hold:
		return "", true, &LayerError{Layer: LayerLandlock, Why: report, Fix: "run claudeops doctor; no session starts until its walls hold"}
	}
	if again {
		return s.sentence(tier) + " They were set up twice, because something was replaced meanwhile; the first time " + found + ".", true, nil
	}
	return s.sentence(tier), true, nil
}

// trial is what the walls of this machine must hold.
func (s *Sandbox) trial(tier ops.Tier, session Session) (*confine.Trial, error) {
	canary := filepath.Join(s.c.StateDir, canaryName)
	if err := os.WriteFile(canary, []byte("Agents must not be able to read or change this file.\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write canary: %w", err)
	}
	t := &confine.Trial{Own: s.Temp(session)}
	version := confine.LandlockVersion()
	if version > 0 || s.Mounts(tier) {
		t.Write = []string{canary, "/etc/passwd", "/etc/hostname"}
		t.Read = []string{canary, "/etc/shadow"}
	} else if s.c.UIDs[tier] != 0 {
		t.Write, t.Read = []string{canary}, []string{canary}
	}
	if version >= confine.ScopedVersion && !s.Mounts(tier) { // a pid namespace has its own numbers
		t.Process = os.Getpid()
	}
	if s.socketsHidden(tier) || confine.SeccompAvailable() {
		t.Sockets = slices.Clone(s.c.Sockets)
		if s.c.UIDs[tier] != 0 && !s.Mounts(tier) { // a docker socket that the operator opened to this user is meant to be reached
			t.Sockets = slices.DeleteFunc(t.Sockets, func(path string) bool { return !inside(path, s.c.RootDir) })
		}
	}
	if session.Net != nil {
		t.Network = session.Net.Trial
	}
	return t, nil
}

// sentence says what was proven, and what is missing.
func (s *Sandbox) sentence(tier ops.Tier) string {
	var on, missing []string
	for _, row := range s.Report(tier) {
		switch {
		case row.Missing:
			missing = append(missing, row.Wall)
		case row.Wall == LayerNetwork && row.State == "on" && !s.Namespaced(tier):
			on = append(on, row.Wall+" (ports, not addresses)")
		case row.State == "on":
			on = append(on, row.Wall)
		}
	}
	text := "they hold: " + strings.Join(on, ", ")
	if len(missing) > 0 {
		text += "; missing on this machine: " + strings.Join(missing, ", ")
	}
	return text
}
