package config

import (
	"strings"
	"testing"
	"time"
)

func TestBuiltInPricesCarryDateAndSource(t *testing.T) {
	text, err := Reference()
	must(t, err)
	c, _ := mustLoad(t, setup{})
	for _, table := range builtInTables() {
		if _, err := time.Parse(time.DateOnly, table.date); err != nil || !strings.HasPrefix(table.source, "https://") || len(table.prices) == 0 {
			t.Errorf("%s: date %q, source %q", table.maker, table.date, table.source)
		}
		if !strings.Contains(text, table.maker+", list prices of "+table.date) || !strings.Contains(text, table.source) {
			t.Errorf("the reference does not say how old the prices of %s are", table.maker)
		}
		if got := shown(c, "prices").Value; !strings.Contains(got, table.maker+" "+table.date) {
			t.Errorf("config show says %q", got)
		}
	}
}

func TestPricesAreOldAfter180Days(t *testing.T) {
	c, _ := mustLoad(t, setup{})
	anthropic := builtInTables()[0]
	at, err := time.Parse(time.DateOnly, anthropic.date)
	must(t, err)
	if old := c.StalePrices(at.AddDate(0, 0, 180)); len(old) != 0 {
		t.Errorf("after 180 days: %+v", old)
	}
	old := c.StalePrices(at.AddDate(0, 0, 181))
	if len(old) != 1 || old[0].Maker != "Anthropic" || old[0].Date != anthropic.date || strings.Join(old[0].Models, ",") != "haiku,sonnet,opus" {
		t.Errorf("after 181 days: %+v", old)
	}
	later := at.AddDate(3, 0, 0)
	own := "prices: {haiku: {input: 1, output: 5}, sonnet: {input: 3, output: 15}, opus: {input: 5, output: 25}}\n"
	if c, _ := mustLoad(t, setup{yaml: own}); len(c.StalePrices(later)) != 0 {
		t.Errorf("the operator's own prices count as old: %+v", c.StalePrices(later))
	}
	const codex = "handlers: [{id: a, tier: 1, agent: codex, model: gpt-5.4, family: gpt}]\n"
	if c, _ := mustLoad(t, setup{yaml: codex}); len(c.StalePrices(later)) != 1 || c.StalePrices(later)[0].Maker != "OpenAI" {
		t.Errorf("with Codex: %+v", c.StalePrices(later))
	}
}
