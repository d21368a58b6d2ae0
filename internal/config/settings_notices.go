package config

func (c *Config) noticeSettings() []field {
	return []field{
		value("notify.apprise_urls", &c.AppriseURLs, appriseKind(), "Notification targets. See [Notifications](notifications.md).").
			byEnv("CLAUDEOPS_APPRISE_URLS").hiddenValue(),
		value("notify.apprise_api", &c.AppriseAPI, webURLKind(),
			"Apprise API server that sends notifications, instead of the `apprise` program.").
			byEnv("CLAUDEOPS_APPRISE_API"),
		value("listen", &c.Listen, listenKind(), "Address of the web pages and the API. An address other than loopback needs `api_token`.").
			byEnv("CLAUDEOPS_LISTEN").or("127.0.0.1:8080"),
		value("api_token", &c.APIToken, tokenKind(),
			"Bearer token for the API and webhooks, and the login for the web pages; at least 20 characters. "+
				"Without it the daemon makes one at its first start: `api-token` in the state folder.").
			byEnv("CLAUDEOPS_API_TOKEN").hiddenValue(),
		value("api_read_token", &c.APIReadToken, tokenKind(),
			"Read-only token: GET requests to the API, `/metrics`, and the web pages without their actions; at least 20 characters.").
			byEnv("CLAUDEOPS_API_READ_TOKEN").hiddenValue(),
		value("notify.second_urls", &c.Edges.SecondURLs, appriseKind(), "Notification targets when reminders are not answered.").
			byEnv("CLAUDEOPS_APPRISE_SECOND_URLS").hiddenValue().orElse("the first ones"),
		list("notify.routes", &c.notices, noticeRouteFields, finishNoticeRoute,
			"Other targets for certain notices. See [Notices](#notices)."),
		value("notify.telegram_senders", &c.Edges.TelegramSenders, senderKind(),
			"Telegram users who may answer with buttons, by their numeric ids. Without any, and without responders, Telegram messages "+
				"have no buttons.").
			byEnv("CLAUDEOPS_TELEGRAM_SENDERS"),
		value("notify.telegram_responders", &c.Edges.TelegramResponders, senderKind(),
			"Telegram users who may acknowledge, snooze and deny with buttons, but not approve.").
			byEnv("CLAUDEOPS_TELEGRAM_RESPONDERS"),
		value("notify.telegram_api", &c.Edges.TelegramAPI, webURLKind(), "Server of the Telegram Bot API.").
			byEnv("CLAUDEOPS_TELEGRAM_API").orElse("`https://api.telegram.org`"),
		value("notify.approve_by_ntfy", &c.Edges.ApproveByNtfy, boolKind(),
			"Allow approvals with a button of ntfy: everyone who can read the topic can then approve. Otherwise the button opens the page.").
			byEnv("CLAUDEOPS_APPROVE_BY_NTFY").or("false"),
		list("events.targets", &c.EventTargets, eventTargetFields, c.finishEventTarget,
			"Programs that are told about cycles, incidents, approvals and actions. See [Events](#events)."),
		value("web.public_url", &c.Edges.PublicURL, webURLKind(),
			"URL at which people reach the web pages. Notices then contain links. Needs `api_token`.").
			byEnv("CLAUDEOPS_PUBLIC_URL"),
		value("web.mcp", &c.Edges.MCP, choiceKind("a use of the MCP server", MCPOff, MCPRead, MCPWrite),
			"MCP server for your own agent at `/mcp`. `read`: it can look. `write`: with the full token it can also start a cycle, acknowledge, "+
				"snooze and silence. It can never approve. See [mcp.md](mcp.md).").
			byEnv("CLAUDEOPS_MCP").or(MCPRead),
	}
}
