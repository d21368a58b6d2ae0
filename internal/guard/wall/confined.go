package wall

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// Session names a session where its folders and sockets differ from those of other sessions.
type Session struct {
	ID string // also the name of its temporary folder
	// The folders of its gate and of its Docker socket; empty without one.
	Gate, Docker string
	// Folders are its own, such as its home; the program of the agent writes to them, its commands read them.
	Folders []string
	// Ungated: no gate puts walls around its commands, so those around the program are all there are.
	Ungated bool
	// Shells: the gate is mounted in the place of the shells that the agent starts.
	Shells bool
	// LookOnly: a dry run changes nothing but its own folders, at every tier.
	LookOnly bool
	Net      *Net // its network; nil: that of the machine
	// Needs are files that its program needs to see beside itself, such as an interpreter.
	Needs []string
	// Clones are what it gets of the repositories; nil: it changes them as they are.
	Clones *Clones
}

// Clones are what a session gets of the repositories that it may change.
type Clones struct {
	Folder string // holds what follows; it is the session's own
	// Git is its copy of the .git of each clone, by the clone; Objects is the folder in that for the objects of the clone.
	Git     map[string]string
	Objects string
	// Fixed is what steers programs, the .git of clones too: it stays as it is.
	Fixed []string
	// Own is the folder of its own clones, where it has no mounts: it changes nothing in the repositories then.
	Own string
}

// ClonesOf is the folder of what a session gets of the repositories.
func ClonesOf(stateDir, id string) string { return filepath.Join(stateDir, clonesFolder, id) }

// doors are the folders of the sockets through which the session reaches the supervisor.
func (session Session) doors() []string {
	return slices.DeleteFunc([]string{session.Gate, session.Docker, session.Net.folder()}, func(dir string) bool { return dir == "" })
}

// Temp is the private temporary folder of a session.
func (s *Sandbox) Temp(session Session) string {
	if session.ID == "" {
		return ""
	}
	return filepath.Join(Temps(s.c.StateDir), session.ID)
}

// Temps is the folder of the temporary folders of an environment's sessions.
func Temps(stateDir string) string { return filepath.Join(stateDir, agentFolder, tempFolder) }

// Command is the wall around each command of a session, nil where there is none. The gate sets it just before the shell.
func (s *Sandbox) Command(tier ops.Tier, session Session) *confine.Wall {
	if !s.c.Confine {
		return nil
	}
	w := s.wall(tier, session)
	w.Read = slices.Concat(s.readable(session), s.own(session), session.Folders, session.doors())
	if len(s.c.Relay) > 0 {
		w.Read = append(w.Read, s.c.Relay[0]) // the supervisor's own tools
	}
	w.Write = slices.Concat(devices(), s.writable(tier, session))
	if s.Mounts(tier) {
		w.Write = append(w.Write, sharedMemory)
	} else {
		w.Write = append(w.Write, s.exchange()) // in bubblewrap it is the state folder, and a right to it would reach the agent's settings
	}
	w.NoUnix = !s.socketsHidden(tier)
	return w
}

// around is the wall around the program of an agent. It still has to reach its gate, if it has one.
func (s *Sandbox) around(tier ops.Tier, session Session, program string) *confine.Wall {
	w := s.wall(tier, session)
	w.Read = slices.Concat(s.readable(session), []string{
		program, filepath.Join(s.c.StateDir, agentFolder), filepath.Join(s.c.StateDir, cooldownName),
	}, s.c.ExtraReadOnly, session.doors())
	if s.c.Programs != "" {
		w.Read = append(w.Read, s.c.Programs)
	}
	places, _ := programPlaces(append([]string{program}, session.Needs...))
	for at := range places {
		if !inside(s.c.RootDir, at) {
			w.Read = append(w.Read, at)
		}
	}
	w.Write = slices.Concat(devices(), s.writable(tier, session), session.Folders, s.grants(), s.c.AgentFolders)
	if s.Mounts(tier) {
		w.Write = append(w.Write, sharedMemory)
	}
	w.Lent = s.Lent(tier, session)
	w.NoUnix = session.Ungated && !s.socketsHidden(tier)
	// A gated program may set the modes of its own files; its commands may not.
	w.KeepMetadata = w.KeepMetadata && session.Ungated
	w.Ports = session.Net.ports()
	if session.Net != nil && session.Net.Relay != nil {
		w.Read = append(w.Read, s.c.Relay[0]) // which is the relay of its network too
	}
	return w
}

func (s *Sandbox) wall(tier ops.Tier, session Session) *confine.Wall {
	return &confine.Wall{
		Best: !s.c.Required, KeepMetadata: !s.socketsHidden(tier), NoShared: !s.Mounts(tier), Closed: s.closed(session), Others: s.judged(),
	}
}

// socketsHidden reports whether file permissions or mounts keep the sockets of others out of reach.
func (s *Sandbox) socketsHidden(tier ops.Tier) bool { return s.c.UIDs[tier] != 0 || s.Mounts(tier) }

// readable is what every session may read, as it is when the session starts. What the operator names opens also in what is closed, but
// for what is hidden by name.
func (s *Sandbox) readable(session Session) []string {
	out, closed := []string{s.noticeFile()}, s.closed(session)
	never := slices.Concat(s.c.Hidden, s.c.OtherStateDirs, s.protectedDirs())
	for i, list := range [][]string{systemPlaces(), s.declared()} {
		for _, path := range list {
			at, err := filepath.EvalSymlinks(path)
			if err == nil && !slices.ContainsFunc([][]string{closed, never}[i], func(dir string) bool { return inside(at, dir) }) {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// declared is what the operator opens: what a session may change at a higher tier can be read at every one.
func (s *Sandbox) declared() []string {
	out := slices.Concat(s.c.Readable, s.c.Clones, s.c.Named)
	if s.c.ReposDir != "" {
		out = append(out, s.c.ReposDir)
	}
	return out
}

func (s *Sandbox) protectedDirs() []string {
	out := []string{s.c.RootDir, s.c.StateDir}
	if s.c.Gates != "" {
		out = append(out, s.c.Gates)
	}
	return out
}

// own is what a command reads of its session's own files.
func (s *Sandbox) own(session Session) []string {
	out := slices.Concat(s.ownFolders(), []string{filepath.Join(s.c.StateDir, cooldownName), s.c.WorkDir})
	return slices.DeleteFunc(append(out, s.Temp(session)), func(path string) bool { return path == "" })
}

// writable is what a tier may change beside the agent's own files.
func (s *Sandbox) writable(tier ops.Tier, session Session) []string {
	var out []string
	if temp := s.Temp(session); temp != "" {
		out = append(out, temp)
	}
	if session.LookOnly {
		return out
	}
	var folders []string
	fixed := s.c.Own
	own := ""
	if c := session.Clones; c != nil && !s.Mounts(tier) {
		fixed, own = slices.Concat(fixed, c.Fixed), c.Own
	}
	switch {
	case own != "":
		out = append(out, own)
	case tier >= ops.Tier2 && s.c.ReposDir != "":
		folders = append(folders, s.c.ReposDir)
	}
	if tier >= ops.Tier3 {
		folders = append(folders, s.c.Named...)
	}
	anchors := ops.Map(s.c.ReadOnly, filepath.Dir)
	for _, dir := range folders {
		if at, err := filepath.EvalSymlinks(dir); err == nil {
			dir = at
		}
		out = append(out, within(dir, fixed, anchors)...)
	}
	return out
}

// mostClones bounds how many clones are named to git.
const mostClones = 100

// CommandEnv are the variables of a command behind the wall: git accepts the repositories although another user owns them, and
// programs that must write do so in the session's temporary folder.
func (s *Sandbox) CommandEnv(session Session) []string {
	var out []string
	if temp := s.Temp(session); temp != "" {
		out = append(out, "TMPDIR="+temp, "ANSIBLE_HOME="+filepath.Join(temp, "ansible"))
	}
	if s.c.ReposDir == "" {
		return out
	}
	safe := []string{s.c.ReposDir}
	entries, _ := os.ReadDir(s.c.ReposDir) // without the folder there are no clones
	for _, entry := range entries {
		if entry.IsDir() && len(safe) < mostClones {
			safe = append(safe, filepath.Join(s.c.ReposDir, entry.Name()))
		}
	}
	out = append(out, "GIT_CONFIG_COUNT="+strconv.Itoa(len(safe)))
	for i, dir := range safe {
		out = append(out, fmt.Sprintf("GIT_CONFIG_KEY_%d=safe.directory", i), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, dir))
	}
	return out
}

// tier is the tier whose folders a session may change.
func (session Session) tier(tier ops.Tier) ops.Tier {
	if session.LookOnly {
		return min(tier, ops.Tier1)
	}
	return tier
}
