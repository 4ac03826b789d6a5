from dataclasses import dataclass
from memolog.prompt.build import ObserveInput
from memolog.prompt.drafts import Draft, Parsed, HintsDraft
from memolog.prompt.transcript import in_zone
from memolog.prompt.escape import clean
from memolog.prompt.redact import REDACTION
from memolog.extractive.units import units_of, Unit
from memolog.extractive.words import weights_of, shortened, is_english
from memolog.extractive.choosing import Candidate, choose
import re
P=dict(ratio=7.2, usercap=0.85, ushare=0.9, head=1.6, pair=1.5, row=1.3, clause=1.0, code=1.0, sentence=1.0, floor=0.03, short=160, q=0.4, userlong=0,me=3.0)
def observe(given, counter):
    drafts=[]
    msgs=[(i,m,REDACTION.redact(clean(m.text))) for i,m in enumerate(given.messages,1)]
    total=sum(len(t) for _,_,t in msgs)
    B=total/P['ratio']
    known=set()
    uu=[]
    for i,m,t in msgs:
        if m.role=='user':
            for u in units_of(t,fine=len(t)>P['userlong']):
                s=shortened(u.text)
                uu.append((i,u,s))
    cand=[Candidate(weights_of(s),len(s),P['me'] if re.search(r"\b(?:I|my|I'm|I've|we|our|me)\b",u.text) else 1.0) for i,u,s in uu]
    tot=sum(c.cost+2 for c in cand)
    ch=choose(cand,min(P['ushare']*tot,P['usercap']*B),known)
    spent=sum(cand[k].cost+2 for k in ch)
    aa=[]
    ach0=set()
    for i,m,t in msgs:
        if m.role=='assistant':
            us=units_of(t,fine=True)
            for u in us:
                    f=P[u.kind]
                    if u.text.endswith('?'): f*=P['q']
                    if len(t)<=P['short']: ach0.add(len(aa))
                    aa.append((i,u,shortened(u.text),f))
    ac=[Candidate(weights_of(re.sub(r'^\d+[.)] ','',u.text),is_head=u.kind in('head','pair','row')),len(s),f) for i,u,s,f in aa]
    for k in ach0: known.update(ac[k].weights); spent+=ac[k].cost+2
    atot=sum(len(t) for _,m,t in msgs if m.role=='assistant')
    ach=choose(ac,max(B-spent,P['floor']*atot),known)|ach0
    by={}
    for k in sorted(ch): by.setdefault(uu[k][0],[]).append(uu[k][2])
    for k in sorted(ach): by.setdefault(aa[k][0],[]).append(aa[k][2])
    parent=None
    for i,m,t in msgs:
        if i in by:
            if m.role=='user': parent=len(drafts)
            drafts.append(Draft(priority='high' if m.role=='user' else 'medium',text=('User: ' if m.role=='user' else '-> ')+'; '.join(by[i]),said_at=in_zone(m.created_at,given.zone),parent=None if m.role=='user' else parent,cites=(i,)))
    return Parsed(observations=tuple(drafts))
