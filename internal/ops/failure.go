package ops

// The classes of failure that an agent CLI tells of itself and that need different answers. What else the model's API
// answers is FailureAPI, told apart by the HTTP status.
const (
	FailureAPI           = "api_error"
	FailureMaxTurns      = "max_turns"         // its own limit of turns
	FailureMaxBudget     = "max_budget"        // its own limit in USD
	FailureStructured    = "structured_output" // it gave up on a structured output that fits the schema
	FailureRefusal       = "refusal"           // the model refused to answer
	FailureOutputLimit   = "output_limit"      // the model's answer was too long
	FailurePromptTooLong = "prompt_too_long"   // the conversation is full
	FailureModelNotFound = "model_not_found"
	FailureBilling       = "billing" // no credit

	// Those of a session that its watcher stopped.
	FailureLoop     = "loop"     // it repeated itself
	FailureBudget   = "budget"   // its money was spent
	FailureDeadline = "deadline" // its time was over
)
