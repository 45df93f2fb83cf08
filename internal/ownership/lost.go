package ownership

import "time"

// LostAge is how long a finished guest is told of as one that a killed run may have left.
const LostAge = time.Hour

// blur is what the age of a task may be wrong by: nodes tell whole seconds, and not at once.
const blur = 2 * time.Second

// MayBeLost finds the task by which this identity may have made a finished guest that no state knows: its run was
// killed between the last request and Terraform's write. The mark of the facts says how the create at hand makes its
// own guest; a clone is listed under its source, so its task may be that of another clone. lived is how long this run
// has been at work: a guest that is younger was made beside it. It proves nothing, since a guest in another state
// looks the same: it is reason for a sentence, never for a write.
func MayBeLost(g Guest, lived time.Duration) (Task, bool) {
	maker, found := g.maker()
	if !found || maker.User != g.Identity || maker.Type != g.Mark.By || !maker.Well {
		return Task{}, false
	}
	age, told := g.age(maker)
	return maker, told && age > lived+blur && age <= LostAge
}
