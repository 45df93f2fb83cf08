package account

import "time"

// Kind is what can be waited for.
type Kind int

// What can be waited for.
const (
	Answer  Kind = iota // the server's to a request
	Task                // the end of a task, with the requests that ask for it
	Lock                // one that somebody else holds on a guest
	Agent               // a guest's agent, or the turn to ask it
	Guest               // a guest that is to go off
	Limit               // the turn to send a request: there are only so many at once
	Retry               // the pause before a request is sent again
	Pause               // the pause before something is looked at again
	Shared              // something that another operation is fetching for all
	Command             // a command on a node, over SSH
	kinds
)

// Kinds lists them.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String names it as the log does.
func (k Kind) String() string {
	return [kinds]string{"answer", "task", "lock", "agent", "guest", "limit", "retry", "pause", "shared", "command"}[k]
}

// Summary is an account that was closed.
type Summary struct {
	// ID is in every line of the operation's.
	ID string
	// Name and Type are as in Config; Thing is what it was about, "VM 101 on pve1".
	Name, Type, Thing string
	// Node and VMID are where that is, if it has such.
	Node string
	VMID int
	// StepsDone are the steps that asked the server something and went well; StepsUndone those that were taken back.
	StepsDone, StepsUndone int
	// Reads and Writes are the requests that were sent, each try of one counted.
	Reads, Writes int
	// Polls are those of the Reads that only asked whether a task has ended.
	Polls int
	// Retries is how often something was sent once more: for want of an answer, or for a lock.
	Retries int
	// Commands is how many were run on nodes over SSH.
	Commands int
	// BytesSent and BytesReceived are those of the bodies of requests and answers.
	BytesSent, BytesReceived int64
	// Took is from the beginning to the end.
	Took time.Duration
	// Waited is how long something of a kind was waited for, by Kind. What goes on at the same time is counted once within a kind,
	// and in each of several kinds.
	Waited [kinds]time.Duration
}

// HasWork reports whether the operation did more than think.
func (s Summary) HasWork() bool { return s.Reads+s.Writes+s.Commands > 0 }

func (s Summary) attributes() []Attribute {
	all := []Attribute{Number("reads", int64(s.Reads)), Number("writes", int64(s.Writes)), Number("polls", int64(s.Polls)),
		Number("retries", int64(s.Retries)), Number("steps_done", int64(s.StepsDone)), Number("steps_undone", int64(s.StepsUndone))}
	if s.VMID != 0 {
		all = append(all, Number("pve.vmid", int64(s.VMID)))
	}
	if s.Node != "" {
		all = append(all, Text("pve.node", s.Node))
	}
	for kind, waited := range s.Waited {
		if waited > 0 {
			all = append(all, Number("wait_"+Kind(kind).String()+"_ms", waited.Milliseconds()))
		}
	}
	return all
}
