package config

import "claudeops/internal/ops"

// Guard is what an agent may do beyond the lists of its CLI, and the sandbox it runs in.
type Guard struct {
	Enabled        bool
	Rules          Prompt // the operator's own rules; empty without a file
	RequireVersion bool
	Hosts          []string
	Protected      []string
	Volumes        []string
	Limits         []ops.CooldownLimit
	Sandbox        Sandbox
}

// SandboxMode is how far missing walls are accepted.
type SandboxMode string

// The modes of the sandbox.
const (
	SandboxAuto     SandboxMode = "auto"
	SandboxRequired SandboxMode = "required"
	SandboxOff      SandboxMode = "off"
)

// Unwalled is what happens to tiers above 1 where the walls they need are missing.
type Unwalled string

// The answers to missing walls.
const (
	UnwalledRefuse Unwalled = "refuse"
	UnwalledAsk    Unwalled = "ask"
	UnwalledAllow  Unwalled = "allow"
)

// Sandbox is what the operating system keeps from agents.
type Sandbox struct {
	Mode       SandboxMode
	Unwalled   Unwalled
	UID        int      // of the agents; 0 leaves the layer off. Auto is resolved when the configuration is read
	Bubblewrap string   // auto, on or off
	Writable   []string // from Tier 3 on
	Folders    []string // of the agent's program, at every tier
	Hidden     []string
	Processes  int   // of a session at once; 0: no limit
	Memory     int64 // of a session, in bytes; 0: half of the machine's
}

// Walled reports whether walls that hold an agent without a shell gate are wanted.
func (s Sandbox) Walled() bool { return s.Mode != SandboxOff || s.Bubblewrap == "on" }

// DockerBroker says when sessions get a Docker socket of their own.
type DockerBroker string

// The choices. Auto means: where the guard is on and the socket of an engine exists.
const (
	DockerAuto DockerBroker = "auto"
	DockerOn   DockerBroker = "on"
	DockerOff  DockerBroker = "off"
)

// Docker is how agents reach the Docker engine.
type Docker struct {
	Broker DockerBroker
	Socket string
}
