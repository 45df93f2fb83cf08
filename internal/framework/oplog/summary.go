package oplog

import "time"

// Kind is a kind of wait.
type Kind int

// The kinds of waits.
const (
	Answer  Kind = iota // the server's answer to a request
	Task                // The end of a task, with the requests that ask for it.
	Lock                // a lock that another task holds on a guest
	Agent               // A guest's agent, or the turn to ask it.
	Guest               // the shutdown of a guest, or its time to settle after a restart
	Limit               // The turn to send a request, or to take a guest down, since their number is limited.
	Retry               // the pause before a request is sent again
	Pause               // The pause before another look.
	Shared              // a listing or a login that another operation fetches for all
	Command             // a command on a node, over SSH
	kinds
)

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// String returns the name of the kind in the log.
func (k Kind) String() string {
	return [kinds]string{"answer", "task", "lock", "agent", "guest", "limit", "retry", "pause", "shared", "command"}[k]
}

// Summary is what an operation did, after its end.
type Summary struct {
	// ID is the id that every line of the operation carries.
	ID string
	// Name and Type are those of Config. Thing is the object in words: "VM 101 on pve1".
	Name, Type, Thing string
	// Node and VMID are those of the VM; zero if it has none.
	Node string
	VMID int
	// StepsDone counts the steps that sent requests and succeeded; StepsUndone those that were undone.
	StepsDone, StepsUndone int
	// Reads and Writes count the requests, with each try.
	Reads, Writes int
	// Polls counts the Reads that only asked whether a task has ended.
	Polls int
	// Retries counts the requests that were sent once more: for a lost answer, or for a lock.
	Retries int
	// Refused is the first write that was refused since the operation only reads: a mistake of the provider.
	Refused string
	// Commands counts the commands over SSH.
	Commands int
	// BytesSent and BytesReceived count the bytes of the bodies of requests and answers.
	BytesSent, BytesReceived int64
	// Took is the duration of the operation.
	Took time.Duration
	// Waited is the time spent waiting, by Kind. Concurrent waits of one kind count once; those of several kinds count in
	// each.
	Waited [kinds]time.Duration
}

// HasWork reports whether the operation sent a request or ran a command.
func (s Summary) HasWork() bool { return s.Reads+s.Writes+s.Commands > 0 }

func (s Summary) attributes() []Attribute {
	all := []Attribute{Number("reads", int64(s.Reads)), Number("writes", int64(s.Writes)), Number("polls", int64(s.Polls)),
		Number("retries", int64(s.Retries)), Number("steps_done", int64(s.StepsDone)), Number("steps_undone",
			int64(s.StepsUndone))}
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
