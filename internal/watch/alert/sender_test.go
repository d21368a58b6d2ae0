package alert_test

import (
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// one reads a body with one alert.
func one(t *testing.T, b alert.Body) ops.Alert {
	t.Helper()
	got, err := alert.Parse(b, now)
	if err != nil || len(got.Alerts) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	return got.Alerts[0]
}

func TestAConfiguredSenderSaysWhereItsBodyHoldsWhat(t *testing.T) {
	sender := ops.AlertSender{Name: "backups", Form: alert.Generic, Fields: ops.AlertFields{
		Alerts: []string{"/jobs"}, ID: []string{"/job/number"}, Name: []string{"/job/title", "/job/name"}, Service: []string{"/job/a~1b/0"},
		Status: []string{"/result"}, Severity: []string{"/weight"}, Summary: []string{"/error/text"}, Labels: []string{"/job/tags", "/job/host"},
		Resolved: []string{"done"}, Ignored: []string{"begun"},
	}}
	b := alert.Body{Sender: sender, Type: "application/json", Content: []byte(`{"jobs":[
		{"job":{"number":7,"name":"nightly","a/b":["nas"],"tags":[{"key":"kind","value":"full"}],"host":"h1"},"result":"broken","weight":"high","error":{"text":"no space"}},
		{"job":{"number":8,"name":"weekly"},"result":"begun"},
		{"job":{"number":7,"name":"nightly","a/b":["nas"]},"result":"DONE"}]}`)}
	got, err := alert.Parse(b, now)
	if err != nil || len(got.Alerts) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	first, last := got.Alerts[0], got.Alerts[1]
	if line(first) != `firing critical nas/nightly "no space" 12:00..- ` || first.Source != "backups" || first.Labels["kind"] != "full" || first.Labels["host"] != "h1" {
		t.Errorf("%s %+v", line(first), first)
	}
	if last.Status != ops.AlertResolved || last.Fingerprint != first.Fingerprint {
		t.Errorf("%+v", last)
	}
	// What is not mapped is read as from everybody.
	b.Sender.Fields = ops.AlertFields{Service: []string{"/team"}}
	b.Content = []byte(`{"event_action":"trigger","dedup_key":"k","team":"shop","payload":{"summary":"s","source":"h","severity":"info"}}`)
	if a := one(t, b); line(a) != `firing info shop/s "s" 12:00..- ` {
		t.Error(line(a))
	}
	b.Content = []byte(`{"name":"x","team":{"a":1}}`)
	if _, err := alert.Parse(b, now); err == nil || err.Error() != "/team is a structure, which does not fit" {
		t.Error(err)
	}
}

func TestAPlainTextIsAnAlert(t *testing.T) {
	for _, tt := range []struct {
		b    alert.Body
		want string
	}{
		{alert.Body{Type: "text/plain; charset=utf-8", Content: []byte("backup failed\nno space left\n")}, `firing warning backup failed/backup failed "backup failed no space left" 12:00..- `},
		{alert.Body{Type: "application/x-www-form-urlencoded", Content: []byte("no space"), Service: "nas", Severity: "high"}, `firing critical nas/message "no space" 12:00..- `},
		{alert.Body{Content: []byte("space again"), Service: "nas", Status: "resolved"}, `resolved warning nas/message "space again" 12:00..12:00 `},
		{alert.Body{Sender: ops.AlertSender{Name: "cron-box"}, Content: []byte("MAILTO"), Name: "cron"}, `firing warning cron-box/cron "MAILTO" 12:00..- `},
		{alert.Body{Content: []byte(` {"message":"JSON all the same"}`), Service: "nas", Name: "n"}, `firing warning nas/n "JSON all the same" 12:00..- `},
	} {
		tt.b.Sender.Form = alert.Generic
		if a := one(t, tt.b); line(a) != tt.want {
			t.Errorf("%s\nwant %s", line(a), tt.want)
		}
	}
	if a, b := one(t, alert.Body{Sender: ops.AlertSender{Form: alert.Generic}, Content: []byte("one text"), Service: "nas"}),
		one(t, alert.Body{Sender: ops.AlertSender{Form: alert.Generic}, Content: []byte("another"), Service: "nas", Status: "ok"}); a.Fingerprint != b.Fingerprint {
		t.Error("the end of an alert with another text is another alert")
	}
}

func TestIdsAreUniqueForEachSender(t *testing.T) {
	seen := map[string]string{}
	for name, b := range map[string]alert.Body{
		"anybody":   from(alert.Generic, `{"id":"5","name":"a"}`),
		"zabbix":    from(alert.Generic, `{"eventid":5,"value":1,"name":"a"}`),
		"sentry":    from(alert.Generic, `{"action":"created","data":{"issue":{"id":"5","title":"a"}}}`),
		"metric":    from(alert.Generic, `{"action":"critical","data":{"metric_alert":{"id":"5","title":"a"}}}`),
		"pagerduty": from(alert.Generic, `{"event_action":"trigger","dedup_key":"5","payload":{"summary":"a"}}`),
		"kuma":      from(alert.Generic, `{"monitor":{"id":5,"name":"a"},"heartbeat":{"status":0}}`),
		"grafana":   from(alert.Grafana, `{"alerts":[{"labels":{"alertname":"a"},"fingerprint":"5"}]}`),
		"first":     {Sender: ops.AlertSender{Name: "first", Form: alert.Generic}, Content: []byte(`{"id":"5","name":"a"}`)},
		"second":    {Sender: ops.AlertSender{Name: "second", Form: alert.Generic}, Content: []byte(`{"id":"5","name":"a"}`)},
	} {
		mark := one(t, b).Fingerprint
		if other, taken := seen[mark]; taken {
			t.Errorf("%s and %s share an id", name, other)
		}
		seen[mark] = name
	}
}

func TestATestButtonIsNoAlert(t *testing.T) {
	for _, b := range []alert.Body{
		from(alert.Generic, `{"msg":"Uptime Kuma Test","heartbeat":null,"monitor":null}`),
		from(alert.Grafana, `{"alerts":[{"status":"firing","labels":{"alertname":"TestAlert","instance":"Grafana"},"annotations":{"summary":"Notification test"}}]}`),
	} {
		if got, err := alert.Parse(b, now); err != nil || got.Tests != 1 || len(got.Alerts) != 0 {
			t.Errorf("%s: %+v %v", b.Content, got, err)
		}
	}
}
