package config

import (
	"slices"
	"strings"
	"time"
)

func (c *Config) guardSettings() []field {
	g := &c.Guard
	restarts, redeployments := &g.Limits[0], &g.Limits[1]
	return slices.Concat(under(
		"guard",
		value("enabled", &g.Enabled, boolKind(),
			"Check every tool call in code, before the CLI and before the shell runs it. A call that was not allowed stops the session.").
			byEnv("CLAUDEOPS_GUARD").or("on"),
		value("rules", &g.Rules, textFileKind("give the path of a file with rules, or remove the setting"),
			"File with your own rules. Each rule has examples that are checked at start. See [security.md](security.md#your-own-rules).").
			orElse("none"),
		value("require_version", &g.RequireVersion, boolKind(),
			"Reject an agent CLI that does not report its version, because its gates cannot be relied on.").
			or("false"),
		value("hosts", &g.Hosts, wordsKind("host names"), "Hosts that an agent may reach with ssh."),
		value("protected_files", &g.Protected, wordsKind("file names"),
			"Infrastructure files that no tier may change, by file name or path. Name the inventory files of your repositories here.").
			or(defaultProtectedFiles),
		value("volumes", &g.Volumes, wordsKind("folders"),
			"Folders with persistent data, in which no tier may delete anything.").or(defaultVolumes),
	), under(
		"docker",
		value("broker", &c.Docker.Broker, choiceKind("a choice for the Docker broker", DockerAuto, DockerOn, DockerOff),
			"Give agents their own Docker socket, on which each request is checked. `auto`: if `docker.socket` exists. Needs the guard. "+
				"See [security.md](security.md#the-docker-broker).").
			or(string(DockerAuto)),
		value("socket", &c.Docker.Socket, socketKind(), "Unix socket of the Docker or Podman API.").or(DefaultDockerSocket),
	), under(
		"cooldown",
		value("restarts", &restarts.Count, intKind(0, 1000), "Maximum restarts of one service within `cooldown.restart_window`.").or("2"),
		value("restart_window", &restarts.Window, durationKind(time.Minute), "Sliding window for counting restarts.").or("4h"),
		value("redeployments", &redeployments.Count, intKind(0, 1000),
			"Maximum redeployments of one service within `cooldown.redeployment_window`.").or("1"),
		value("redeployment_window", &redeployments.Window, durationKind(time.Minute),
			"Sliding window for counting redeployments.").or("24h"),
	))
}

func (c *Config) sandboxSettings() []field {
	s := &c.Guard.Sandbox
	return under(
		"sandbox",
		value("mode", &s.Mode, choiceKind("a mode of the sandbox", SandboxAuto, SandboxRequired, SandboxOff),
			"Walls of the operating system around agents and their commands. `auto`: every wall that this machine offers. `required`: no "+
				"session starts if a wall is missing. `off`: only the layers named below. See [security.md](security.md).").
			byEnv("CLAUDEOPS_SANDBOX").or("auto").forSection(),
		value("unwalled", &s.Unwalled, choiceKind("an answer", UnwalledRefuse, UnwalledAsk, UnwalledAllow),
			"Tiers above 1 on a machine that lacks the walls they need: refuse to start them, ask a human first, or start them.").or("ask"),
		value("bubblewrap", &s.Bubblewrap, switchKind(),
			"Run agents in bubblewrap (`bwrap`). `auto`: where it works, for its mounts; agents still see all processes. `on`: also their "+
				"own process list and `/tmp`; if it cannot be set up, no session starts.").
			or("auto"),
		value("uid", &s.UID, uidKind(),
			"User id that runs the agents; 0 means the supervisor's. `auto`: the user `"+AgentUserName+"` where it exists and the "+
				"supervisor is root.").
			or("auto"),
		value("writable", &s.Writable, foldersKind(), "Folders that agents and their commands may change from Tier 3 on."),
		value("agent_folders", &s.Folders, foldersKind(),
			"Folders that the agent program may change at every tier, such as a cache. Commands behind the guard may not.").
			byEnv("CLAUDEOPS_SANDBOX_AGENT_FOLDERS"),
		value("hidden", &s.Hidden, foldersKind(), "More files and folders that agents and their commands may not read."),
		value("memory_mb", &s.Memory, megabytesKind(1<<24),
			"Memory that a session may use, in megabytes, where it has a cgroup; 0 means half of the machine's.").or("0"),
	)
}

// autoUID means the user that this machine has for agents.
const autoUID = -1

// uidKind reads a user id or auto.
func uidKind() kind[int] {
	k := intKind(0, 1<<31-1)
	number, show := k.parse, k.format
	k.name = "`auto` or a user id"
	k.schema = map[string]any{"anyOf": []any{k.schema, map[string]any{"const": "auto"}}}
	k.parse = func(p places, v raw) (int, []fault) {
		if v.text == "auto" {
			return autoUID, nil
		}
		return number(p, v)
	}
	k.format = func(uid int) string {
		if uid == autoUID {
			return "auto"
		}
		return show(uid)
	}
	return k
}

// foldersKind reads paths, relative to the place where they are given.
func foldersKind() kind[[]string] {
	return listOf("paths, separated by commas", splitAtCommas, pathKind())
}

// switchKind reads on, off or auto.
func switchKind() kind[string] {
	enum := []any{true, false, "yes", "no", "on", "off", "auto"}
	yes := boolKind()
	return kind[string]{
		name: "`auto`, `on` or `off`", schema: map[string]any{"type": []any{"boolean", "string"}, "enum": enum},
		parse: func(p places, v raw) (string, []fault) {
			if strings.EqualFold(v.text, "auto") {
				return "auto", nil
			}
			on, faults := yes.parse(p, v)
			switch {
			case faults != nil:
				return "", wrong(v, "give auto, on or off", "%q is neither auto, on nor off", v.text)
			case on:
				return "on", nil
			}
			return "off", nil
		},
	}
}
