package cloudevents

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sdkVersion is the version of the SDK for JavaScript that script/setup-tests installs.
const sdkVersion = "10.0.0"

func TestTheSDKForJavaScriptReceivesEvents(t *testing.T) {
	modules, err := filepath.Abs("../../../.cache/cloudevents-" + sdkVersion + "/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "cloudevents", "package.json")); err != nil {
		t.Fatalf("the CloudEvents SDK %s is not installed (%v): run script/setup-tests", sdkVersion, err)
	}
	c := exec.CommandContext(t.Context(), "node", "testdata/receiver.js")
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "NODE_PATH=" + modules}
	var said strings.Builder
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			_ = c.Wait()
			t.Fatalf("the receiver ended: %v\n%s", lines.Err(), said.String())
		}
		return lines.Text()
	}
	j := open(t)
	wake, _ := running(t, j, nil, Target{Name: "a", URL: "http://127.0.0.1:" + next(), Secret: secret})
	problem(j)
	wake()
	var types []string
	for range 5 {
		var got struct{ Error, ID, Type, Subject, Environment, Title string }
		line := next()
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Error != "" || got.ID == "" || got.Environment != "default" {
			t.Fatalf("%v: %s", err, line)
		}
		if got.Type == "claudeops.incident.opened" && got.Title != "disk full" {
			t.Errorf("the data of an incident: %s", line)
		}
		types = append(types, got.Type)
	}
	want := []string{
		"claudeops.cycle.created", "claudeops.cycle.started", "claudeops.incident.opened", "claudeops.incident.called", "claudeops.approval.requested",
	}
	if !slices.Equal(types, want) {
		t.Errorf("received %v, want %v", types, want)
	}
}
