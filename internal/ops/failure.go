package ops

// FailureClass is what kind of failure ended a session. It is stored, matched by the recovery matrix and shown.
type FailureClass string

// What an agent CLI reports about itself. Other answers of the model's API are FailureAPI, told apart by the HTTP status.
const (
	FailureNone          FailureClass = ""
	FailureAPI           FailureClass = "api_error"
	FailureMaxTurns      FailureClass = "max_turns"         // its own limit of turns
	FailureMaxBudget     FailureClass = "max_budget"        // its own limit in USD
	FailureStructured    FailureClass = "structured_output" // it gave up on a structured output that fits the schema
	FailureRefusal       FailureClass = "refusal"           // the model refused to answer
	FailureOutputLimit   FailureClass = "output_limit"      // the model's answer was too long
	FailurePromptTooLong FailureClass = "prompt_too_long"   // the conversation is full
	FailureModelNotFound FailureClass = "model_not_found"
	FailureBilling       FailureClass = "billing"     // no credit
	FailureAgent         FailureClass = "agent_error" // the CLI reported another error
)

// What the supervisor finds when it runs the process.
const (
	FailureNotFound      FailureClass = "not_found" // the program does not exist
	FailureStart         FailureClass = "start"     // it could not be started
	FailureTooOld        FailureClass = "too_old"   // its version is too old for the tier
	FailureLayer         FailureClass = "layer"     // a layer of the operating system around it could not be set up
	FailureExit          FailureClass = "exit"      // it exited with an error
	FailureNoResult      FailureClass = "no_result" // it exited without a result
	FailureJournal       FailureClass = "journal"   // its output could not be stored
	FailureInvariant     FailureClass = "invariant" // a tool ran that no gate had allowed
	FailureStopped       FailureClass = "stopped"
	FailureInterrupted   FailureClass = "interrupted"    // the supervisor ended while it ran
	FailureAgentUnknown  FailureClass = "agent"          // the handler names an agent that this build does not have
	FailurePrepare       FailureClass = "prepare"        // what it needs could not be prepared
	FailureGate          FailureClass = "gate"           // its gate could not be opened
	FailureOutcome       FailureClass = "outcome"        // it gave no usable outcome
	FailureResumeRefused FailureClass = "resume_refused" // the conversation could not be continued; nothing ran
	FailureUnpaid        FailureClass = "unpaid"         // no money was left for it; nothing ran
)

// Why the supervisor stopped a session.
const (
	FailureWall     FailureClass = "wall_limit"
	FailureIdle     FailureClass = "idle"
	FailureTool     FailureClass = "tool_limit"
	FailureLoop     FailureClass = "loop"     // it repeated itself
	FailureBudget   FailureClass = "budget"   // its money was spent
	FailureDeadline FailureClass = "deadline" // its time was over
)
