package browsertest

import (
	"fmt"

	"claudeops/test/agenttest"
)

// What agents say, as lines of their stream.

func start(model string) string {
	return fmt.Sprintf(`{"type":"system","subtype":"init","session_id":"75da0b1e","tools":["Bash","Read"],"model":%s}`, quoted(model))
}

func said(text string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]}}`, quoted(text))
}

func call(id, command string) string { return agenttest.Use(id, command) }

func answer(id, output string, failed bool) string {
	return fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%s,"content":%s,"is_error":%t}]}}`,
		quoted(id), quoted(output), failed)
}

func retry() string {
	return `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error":"rate_limit"}`
}

func ended(words string) string { return agenttest.Result(0.02, words) }

func talk(words string) []string {
	return []string{
		start("haiku"), said("I look at the services."), call("toolu_1", "curl -s -o /dev/null -w '%{http_code}' http://jellyfin:8096/health"),
		answer("toolu_1", "502", false), said(words), ended(words),
	}
}

func looping() []string {
	lines := []string{start("sonnet")}
	for n := range 8 {
		id := fmt.Sprintf("toolu_%d", n)
		lines = append(lines, call(id, "docker restart jellyfin"), answer(id, "jellyfin", false))
	}
	return lines
}

// rich has a line of every kind.
func rich() []string {
	return []string{
		start("opus"),
		`{"type":"user","message":{"content":"Repair jellyfin. Two restarts did not help."}}`,
		said("## Plan\n\n1. Stop the backup that holds the lock\n2. Restart `jellyfin`\n\n| Service | State |\n|---|---|\n| jellyfin | **502** |\n| backup | running |\n\n```sh\nsystemctl stop backup\n```\n\nSee [the log](https://example.com/log) and <https://example.org>."),
		`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"The lock is held by pid 4711."}]}}`,
		call("toolu_1", "systemctl stop backup && docker restart jellyfin"),
		answer("toolu_1", "\x1b[32mjellyfin\x1b[0m restarted\n\x1b[1;31merror:\x1b[0m none\n", false),
		call("toolu_2", "cat /etc/jellyfin/secret"),
		answer("toolu_2", "token=[redacted:secret]", false),
		call("toolu_3", "curl -s http://jellyfin:8096/missing"),
		answer("toolu_3", "curl: (22) The requested URL returned error: 404", true),
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_4","name":"Read","input":{"file_path":"/etc/jellyfin/network.xml"}}]}}`,
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"toolu_5","name":"Edit","input":{"file_path":"/etc/jellyfin/network.xml","old_string":"a","new_string":"b"}}]}}`,
		`{"type":"stderr","text":"warning: one line on the error output"}`,
		`{"type":"redacted","text":"1 line was withheld: it held a private key."}`,
		"a line that is no event",
		said("jellyfin answers **200** again."),
		ended("Stopped the backup and restarted jellyfin. `/health` answers 200."),
	}
}

func handoff(tier int, service string) string { return agenttest.Handoff(tier, service) }
