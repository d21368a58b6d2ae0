package gate

import (
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
)

// Confine sets the wall around every command of the session, and the variables that the commands get with it. It comes before
// the agent starts.
func (s *Session) Confine(wall *confine.Wall, env []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wall, s.wallEnv = wall, env
}

// behindWall adds the wall to the answer that lets a command run.
func (s *Session) behindWall(a client.Answer) client.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Wall, a.Env = s.wall, s.wallEnv
	return a
}
