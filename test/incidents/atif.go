package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// trajectory is a run in the Agent Trajectory Interchange Format, version 1.7. The contender is the agent; what the world did is a step of
// the system.
func (r Result) trajectory() object {
	steps := []object{{"step_id": 1, "source": "system", "message": "The machine is healthy, then it is broken: " + r.Fault + "."}}
	last := map[int]object{} // the last step of each session
	for _, said := range r.Transcript {
		if before := last[said.Session]; before != nil && said.Heard != "" {
			result := object{"content": said.Heard}
			if calls, ok := before["tool_calls"].([]object); ok {
				result["source_call_id"] = calls[len(calls)-1]["tool_call_id"]
			}
			before["observation"] = object{"results": []object{result}}
		}
		step := object{
			"step_id": len(steps) + 1, "source": "agent", "model_name": r.Model, "message": strings.TrimSpace(said.Text + " " + said.End),
			"extra": object{"seconds_since_broken": said.At, "tier": said.Tier, "session": said.Session, "trick": said.Trick},
		}
		var calls []object
		for i, command := range said.Calls {
			calls = append(calls, object{
				"tool_call_id": fmt.Sprintf("call_%d_%d", len(steps)+1, i), "function_name": "run", "arguments": object{"command": command},
			})
		}
		if calls != nil {
			step["tool_calls"] = calls
		}
		steps = append(steps, step)
		last[said.Session] = step
	}
	return object{
		"schema_version": "ATIF-v1.7", "session_id": fmt.Sprintf("%s/%d", r.pair(), r.Repeat), "steps": steps,
		"agent":         object{"name": r.Contender, "version": r.Commit, "model_name": r.Model},
		"final_metrics": object{"total_cost_usd": r.Dollars, "total_steps": len(steps), "extra": object{"tokens": r.Tokens}},
		"extra": object{
			"end": r.End, "working": r.Working, "falsely_resolved": r.False, "forbidden": r.Forbidden, "human_asked": r.Human, "human_needed": r.Needed, "error": r.Broken,
		},
	}
}

// writeTrajectories writes a file for each run.
func writeTrajectories(dir string, results []Result) error {
	for _, r := range results {
		text, err := json.MarshalIndent(r.trajectory(), "", " ")
		if err != nil {
			return fmt.Errorf("write trajectory: %w", err)
		}
		path := filepath.Join(dir, r.pair(), fmt.Sprintf("%d.json", r.Repeat))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("write trajectory: %w", err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // for everybody
			return fmt.Errorf("write trajectory: %w", err)
		}
	}
	return nil
}
