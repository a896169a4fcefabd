// Package oracle judges: recorded facts in, one verdict for each memory out. It is pure; it does no I/O and reads no
// clock, time comes in as a value. It knows nothing of how a fact was found out, and never looks at a verdict that was
// given before.
//
// A Book folds facts in the order of their Seq, online from the ledger's tap and offline from a file, with the same
// code; so the same ledger gives the same verdicts. What it keeps of a memory is a History of constant size: for each
// view the last reading, the last presence and the absence that stands, not every reading. Judge combines a History and
// a Context (faults, foreign deaths, contracts, later writes) into a verdict.
//
// # Where the rules leave a choice
//
// A false alarm and a missed loss are equally bugs, so each choice is the one that does neither:
//
//   - A contract judges the memories that were begun while it was in force, for their whole life.
//   - Absence is evidence from the acknowledgement on. A read that began earlier, or while the write was in flight, says
//     nothing. Presence is evidence whenever it was read, but goes stale: after a fault that touched the view, or a death of
//     its service, the view counts as unread until it has been read again. A fault on a service that only stores are
//     behind touches their views alone; any other touches every view, since nobody knows where that service writes. What
//     did not touch the view leaves its reading standing, should a sweep not come to it (after a fault, Due asks for all
//     views nevertheless: see there) — until one view is proven to miss the memory: then the others count only as read
//     since the last fault, whatever it touched.
//   - The last reading is a view's word: a view that cannot be read now is unreadable although it was readable before.
//   - A loss is proven at a read: the second absent one or later, begun after the deadline as the facts stood then,
//     while the view still owed the memory. A proof stands until the memory is seen in that view again: a later fault,
//     deletion, expiry, trimming, retirement or unreadable view does not take it back.
//     When other views can no longer be read, the verdict that was given stands until one of those that missed the memory
//     has it.
//   - Once its user has begun to delete a memory nothing more of it can be lost: what the page last showed, it shows.
//   - The deadline is settle after the latest of the acknowledgement, the end of any injection, and the recovery from
//     a foreign death of the view's own service. A death of some other service that is not ours does not put it off:
//     one that keeps dying would put it off for ever.
//   - Durations hold within one boot and between two clock gaps. A deadline whose base lies before either proves
//     nothing, and the view stays unverified until a later fault or death gives a base again.
//   - A cache (durable: false) must be readable, and empty for that user, before it is excused. What it holds saves a
//     memory from being lost only where there is no page to ask (volatile).
//   - A store that owes the memory no more (trimmed, expired) still shows that it exists, by its last reading.
//   - Of the views that a user looks at, the one named page (read in a fresh context) and the one named answer are
//     evidence; any other, such as a returning browser, is a note. An answer that was not asked for since the last fault
//     is none either, for or against.
//   - The first absence of a memory that was never seen in a view is the first one after its deadline; until then it
//     may only have been late, and a fault in between may be why it never came.
//   - A loss in several views has the suspects of each of them.
//   - may_lose must excuse every store that misses the memory; the page follows the stores. Any one suspect that it
//     excuses is enough, since then the loss is not proven to break the promise.
//   - Altered, expired_early, outlived and resurfaced are, like duplicated, said of acknowledged memories only; leaked of
//     all. Text in an answer is never altered.
//   - A memory that was counted as lost and comes back is judged by what is there now, has resurfaced, and stays in the
//     count of losses. An answer that failed and succeeds later has not resurfaced: a model may answer badly.
//   - A cycle is inconclusive for want of evidence only of the memories that it told or read.
//   - A retired memory keeps its verdict; one that could not be verified is released.
package oracle
