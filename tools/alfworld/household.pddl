; A household in which one agent carries one thing at a time: the rules of AlfWorld's text games.
; Doors matter for looking, taking and putting; washing, heating, cooling and switching on need only
; that the agent stands at the appliance. Every action costs a step of the plan.

(define (domain alfred)
  (:requirements :adl :action-costs :typing)

  (:types agent location receptacle object rtype otype)

  (:predicates
    ; where everyone and everything is
    (atLocation ?a - agent ?l - location)
    (receptacleAtLocation ?r - receptacle ?l - location)
    (objectAtLocation ?o - object ?l - location)
    (inReceptacle ?o - object ?r - receptacle)
    (inReceptacleObject ?inner - object ?outer - object)
    (holds ?a - agent ?o - object)
    (holdsAny ?a - agent)
    ; what kind of thing it is and what it is good for
    (objectType ?o - object ?t - otype)
    (receptacleType ?r - receptacle ?t - rtype)
    (canContain ?rt - rtype ?ot - otype)
    (openable ?r - receptacle)
    (pickupable ?o - object)
    (isReceptacleObject ?o - object)
    (cleanable ?o - object)
    (heatable ?o - object)
    (coolable ?o - object)
    (toggleable ?o - object)
    (sliceable ?o - object)
    ; what has been done to it
    (opened ?r - receptacle)
    (checked ?x)
    (isClean ?o - object)
    (isHot ?o - object)
    (isCool ?o - object)
    (isOn ?o - object)
    (isToggled ?o - object)
    (isSliced ?o - object)
  )

  (:functions (total-cost) - number)

  ; looking and asking change nothing but what has been checked; only what is held can be turned
  ; in the hands and looked at from all sides

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (and (atLocation ?a ?l))
    :effect (and (checked ?l)))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (and (checked ?a)))

  (:action help
    :parameters (?a - agent)
    :precondition ()
    :effect (and (checked ?a)))

  (:action examineReceptacle
    :parameters (?a - agent ?r - receptacle)
    :precondition (and (exists (?l - location)
                         (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l))))
    :effect (and (checked ?r)))

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (and (holds ?a ?o))
    :effect (and (checked ?o)))

  ; moving about and handling doors

  (:action GotoLocation
    :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
    :precondition (and (atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd))
    :effect (and (not (atLocation ?a ?lStart))
                 (atLocation ?a ?lEnd)
                 (increase (total-cost) 1)))

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (openable ?r) (not (opened ?r)))
    :effect (and (opened ?r) (checked ?r) (increase (total-cost) 1)))

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (openable ?r) (opened ?r))
    :effect (and (not (opened ?r)) (increase (total-cost) 1)))

  ; one pair of hands

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (pickupable ?o) (inReceptacle ?o ?r)
                       (not (holdsAny ?a))
                       (or (not (openable ?r)) (opened ?r)))
    :effect (and (holds ?a ?o) (holdsAny ?a)
                 (not (inReceptacle ?o ?r)) (not (objectAtLocation ?o ?l))
                 (increase (total-cost) 1)))

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (holds ?a ?o)
                       (objectType ?o ?ot) (receptacleType ?r ?rt) (canContain ?rt ?ot)
                       (or (not (openable ?r)) (opened ?r)))
    :effect (and (inReceptacle ?o ?r) (objectAtLocation ?o ?l)
                 (not (holds ?a ?o)) (not (holdsAny ?a))
                 (increase (total-cost) 1)))

  ; household appliances

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (or (receptacleType ?r SinkType) (receptacleType ?r SinkBasinType))
                       (cleanable ?o) (holds ?a ?o))
    :effect (and (isClean ?o) (increase (total-cost) 5)))

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (receptacleType ?r MicrowaveType)
                       (heatable ?o) (holds ?a ?o))
    :effect (and (isHot ?o) (not (isCool ?o)) (increase (total-cost) 5)))

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (receptacleType ?r FridgeType)
                       (coolable ?o) (holds ?a ?o))
    :effect (and (isCool ?o) (not (isHot ?o)) (increase (total-cost) 5)))

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (toggleable ?o) (inReceptacle ?o ?r))
    :effect (and (when (isOn ?o) (not (isOn ?o)))
                 (when (not (isOn ?o)) (isOn ?o))
                 (isToggled ?o)
                 (increase (total-cost) 5)))

  (:action SliceObject
    :parameters (?a - agent ?l - location ?co - object ?ko - object)
    :precondition (and (atLocation ?a ?l) (objectAtLocation ?co ?l)
                       (sliceable ?co) (holds ?a ?ko)
                       (or (objectType ?ko KnifeType) (objectType ?ko ButterKnifeType)))
    :effect (and (isSliced ?co) (increase (total-cost) 5)))
)
