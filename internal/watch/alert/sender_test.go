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
