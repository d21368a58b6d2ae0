//go:build linux

package wall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// canaryName is the file in the state folder that no session may read or write.
const canaryName = "canary"

// PrepareSession makes the folders that only this session has. It comes after Prepare.
func (s *Sandbox) PrepareSession(tier ops.Tier, session Session) error {
	temp := s.Temp(session)
	if temp == "" || !s.c.Confine {
		return nil
	}
	who := person{uid: os.Geteuid(), gid: os.Getegid()}
	if uid := s.c.UIDs[tier]; uid != 0 {
		var err error
		if who, err = lookUp(uid); err != nil {
			return err
		}
	}
	parent := filepath.Dir(temp)
	if err := s.clearTemps(parent, filepath.Base(temp)); err != nil {
		return err
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("make temporary folder of the session: %w", err)
	}
	if s.c.UIDs[tier] != 0 { // the agent's user passes through the folder above and sees nothing else in it
		if err := errors.Join(os.Chmod(parent, 0o711), s.give(temp, who)); err != nil { //nolint:gosec // to pass through
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

// RemoveTemp removes the temporary folders of sessions that have ended.
func (s *Sandbox) RemoveTemp() error {
	if !s.c.Confine {
		return nil
	}
	return s.clearTemps(filepath.Join(s.c.StateDir, agentFolder, tempFolder), "")
}

// Prove tries the walls of a session from inside, the same way its commands run: files outside cannot be written, secrets cannot be
// read, other processes cannot be signalled and the sockets of docker and the supervisor do not answer. It returns one sentence for
// the record. The error is a *LayerError when a wall does not hold; the session must not start then.
func (s *Sandbox) Prove(ctx context.Context, tier ops.Tier, session Session, program string) (string, error) {
	if !s.c.Confine {
		return "", nil
	}
	trial, err := s.trial(tier, session)
	if err != nil {
		return "", err
	}
	walls := []*confine.Wall{s.around(tier, session, program)}
	if !session.Ungated {
		walls = append(walls, s.Command(tier, session))
	}
	walls[len(walls)-1].Trial = trial
	cmd := Command{Path: "", Argv: nil, Env: []string{}, Dir: "/"}
	if err := s.confine(&cmd, walls); err != nil {
		return "", err
	}
	if s.wraps(tier) {
		// Nothing has to pass signals on to a trial, so bubblewrap is started without a relay.
		if cmd, err = s.inNamespaces(tier, session, program, cmd); err != nil {
			return "", err
		}
		cmd.Argv = cmd.Argv[len(s.c.Relay):]
		cmd.Path = cmd.Argv[0]
	}
	if err := s.runTrial(ctx, tier, cmd); err != nil {
		return "", &LayerError{Layer: LayerLandlock, Why: err.Error(), Fix: "run claudeops doctor; no session starts until its walls hold"}
	}
	return s.sentence(tier), nil
}

func (s *Sandbox) runTrial(ctx context.Context, tier ops.Tier, c Command) error {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = c.Env, "/", time.Second
	if uid := s.c.UIDs[tier]; uid != 0 {
		who, err := lookUp(uid)
		if err != nil {
			return err
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if why := strings.TrimSpace(stderr.String()); why != "" {
			return errors.New(why)
		}
		return fmt.Errorf("try the walls: %w", err)
	}
	return nil
}

// trial is what the walls of this machine must hold.
func (s *Sandbox) trial(tier ops.Tier, session Session) (*confine.Trial, error) {
	canary := filepath.Join(s.c.StateDir, canaryName)
	if err := os.WriteFile(canary, []byte("Agents must not be able to read or change this file.\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write canary: %w", err)
	}
	t := &confine.Trial{Own: s.Temp(session)}
	version := confine.LandlockVersion()
	if version > 0 || s.wraps(tier) {
		t.Write = []string{canary, "/etc/passwd", "/etc/hostname"}
		t.Read = []string{canary, "/etc/shadow"}
	} else if s.c.UIDs[tier] != 0 {
		t.Write, t.Read = []string{canary}, []string{canary}
	}
	if version >= confine.ScopedVersion && !s.c.Bubblewrap {
		t.Process = os.Getpid()
	}
	if s.socketsHidden(tier) || confine.SeccompAvailable() {
		t.Sockets = slices.Clone(s.c.Sockets)
		if s.c.UIDs[tier] != 0 && !s.wraps(tier) { // a docker socket that the operator opened to this user is meant to be reached
			t.Sockets = slices.DeleteFunc(t.Sockets, func(path string) bool { return !inside(path, s.c.RootDir) })
		}
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
		case row.State == "on":
			on = append(on, row.Wall)
		}
	}
	text := "The walls of the session hold: " + strings.Join(on, ", ") + "."
	if len(missing) > 0 {
		text += " Missing on this machine: " + strings.Join(missing, ", ") + "."
	}
	return text
}
